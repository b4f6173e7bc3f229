package fence

// DefinitionKey returns the key of a CRD in etcd, or the prefix of all of them if name is
// empty.
func (f *Fences) DefinitionKey(name string) string { return f.prefix(f.definitions) + name }
