//go:build js && wasm

// Command wasm is the engine of the web page as WebAssembly. It answers the requests of a worker, which
// calls espalierAnswer(name, request) and gets a promise of the response, both JSON texts.
package main

import (
	"context"
	"encoding/json"
	"syscall/js"

	"espalier.dev/web/protocol"
)

func main() {
	engine := protocol.New(options())
	promise := js.Global().Get("Promise")
	js.Global().Set("espalierAnswer", js.FuncOf(func(_ js.Value, args []js.Value) any {
		name, request := args[0].String(), args[1].String()
		var settle js.Func
		settle = js.FuncOf(func(_ js.Value, resolve []js.Value) any {
			// A callback must not block. The worker has one request at a time, and ends with the
			// request if that is canceled: no other goroutine could stop it.
			go func() {
				defer settle.Release()
				resolve[0].Invoke(answer(engine, name, request))
			}()
			return nil
		})
		return promise.New(settle)
	}))
	select {} // the functions need the runtime
}

// answer returns the response as JSON.
func answer(engine *protocol.Engine, name, request string) string {
	text, err := json.Marshal(engine.Answer(context.Background(), name, []byte(request)))
	if err != nil {
		text, _ = json.Marshal(protocol.Response{Error: &protocol.Error{Code: protocol.Failed, Message: err.Error()}})
	}
	return string(text)
}
