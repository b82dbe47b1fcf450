// Drives a server with Toxiproxy's own Go client: one JSON command a line in, one answer a line out.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
)

type command struct {
	Verb, Name, Listen, Upstream, Toxic, Type, Stream string
	Toxicity                                          float32
	Attributes                                        toxiproxy.Attributes
	Proxies                                           []toxiproxy.Proxy
}

func main() {
	client := toxiproxy.NewClient(os.Getenv("TOXIPROXY_URL"))
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked command
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		answer, err := do(client, &asked)
		if err != nil {
			out.Encode(map[string]any{"error": err.Error()})
		} else {
			out.Encode(map[string]any{"answer": answer})
		}
	}
}

func do(client *toxiproxy.Client, asked *command) (any, error) {
	switch asked.Verb {
	case "version":
		_, err := client.Version()
		return nil, err
	case "list":
		return client.Proxies()
	case "create":
		return client.CreateProxy(asked.Name, asked.Listen, asked.Upstream)
	case "populate":
		return client.Populate(asked.Proxies)
	case "reset":
		return nil, client.ResetState()
	}
	proxy, err := client.Proxy(asked.Name)
	if err != nil {
		return nil, err
	}
	switch asked.Verb {
	case "inspect":
		return proxy, nil
	case "enable":
		return proxy, proxy.Enable()
	case "disable":
		return proxy, proxy.Disable()
	case "move":
		proxy.Upstream = asked.Upstream
		return proxy, proxy.Save()
	case "delete":
		return nil, proxy.Delete()
	case "add":
		return proxy.AddToxic(asked.Toxic, asked.Type, asked.Stream, asked.Toxicity, asked.Attributes)
	case "update":
		return proxy.UpdateToxic(asked.Toxic, asked.Toxicity, asked.Attributes)
	case "remove":
		return nil, proxy.RemoveToxic(asked.Toxic)
	}
	panic("no such verb: " + asked.Verb)
}
