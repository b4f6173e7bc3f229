package keyspace

import "time"

// SetTimeout sets the time that etcd has to answer a request.
func SetTimeout(c *Cluster, d time.Duration) { c.timeout = d }
