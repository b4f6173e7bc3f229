package v2

// Hub marks the version that all others are converted to and from.
func (*Shop) Hub() {}
