package source

// Etcd configures a source whose objects are in etcd or in a snapshot of it.
type Etcd struct {
	// Snapshot is the path of a snapshot file. If it is empty, Endpoints are those of a running
	// cluster.
	Snapshot string
	// SkipChecksum reads a snapshot file without verifying its checksum.
	SkipChecksum bool
	Endpoints    Endpoints
	// Prefix is the prefix of resource keys.
	Prefix string
	// EncryptionConfig is the path of the configuration with which objects were encrypted. It
	// may be empty.
	EncryptionConfig string
}

// Endpoints configures the connection to an etcd.
type Endpoints struct {
	// URLs are the members' addresses.
	URLs []string
	// CertFile and KeyFile hold a client certificate, CAFile the CA of the members'
	// certificates. All may be empty.
	CertFile, KeyFile, CAFile string
}
