package definitions

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/value"
)

// decrypting are storage options whose transformer calls failed when a CRD cannot be
// decrypted: such a CRD is undecodable.
type decrypting struct {
	generic.RESTOptionsGetter
	failed func()
}

func (d *decrypting) GetRESTOptions(r runtimeschema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := d.RESTOptionsGetter.GetRESTOptions(r, example)
	if err != nil || opts.StorageConfig == nil || opts.StorageConfig.Transformer == nil {
		return opts, err
	}
	config := *opts.StorageConfig
	config.Transformer = &decryptor{Transformer: config.Transformer, failed: d.failed}
	opts.StorageConfig = &config
	return opts, nil
}

type decryptor struct {
	value.Transformer
	failed func()
}

func (d *decryptor) TransformFromStorage(ctx context.Context, data []byte, at value.Context) ([]byte, bool, error) {
	out, stale, err := d.Transformer.TransformFromStorage(ctx, data, at)
	if err != nil && ctx.Err() == nil {
		d.failed()
	}
	return out, stale, err
}
