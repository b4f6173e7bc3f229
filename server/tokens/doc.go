// Package tokens issues and authenticates the tokens of service accounts, as kube-apiserver
// does: signed JWTs with an audience and an expiration, that are bound to a service account and
// possibly to a pod, a secret or a node.
//
// [Keys] are the keys that sign and verify. [Issuer] signs, [REST] serves the subresource token
// of service accounts, [Authenticator] authenticates, and [Metadata] publishes the public keys,
// so that other programs can verify tokens, too.
//
// It also authenticates the tokens that kube-controller-manager writes to Secrets of the type
// kubernetes.io/service-account-token, which never expire: as long as the Secret has the token.
//
// A token is valid as long as the objects that it is bound to exist: they are read from the
// store of the server for each request. The server that deletes an object rejects its tokens as
// soon as it has answered; others on the same etcd do when they have received the event.
package tokens
