// A server that speaks Google Pub/Sub's protocol, in memory: pstest of Google's Go client.
// It prints its address, then a line for each seek, and runs until its input ends. A seek does nothing: that of pstest
// makes messages without content, and the server ends soon after.
package main

import (
	"fmt"
	"io"
	"os"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
)

type seeks struct{}

func (seeks) React(request interface{}) (bool, interface{}, error) {
	asked := request.(*pubsubpb.SeekRequest)
	fmt.Println("seek", asked.Subscription, asked.GetTime().AsTime().Unix())
	return true, &pubsubpb.SeekResponse{}, nil
}

func main() {
	address := "127.0.0.1:0"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	server := pstest.NewServerWithAddress(address, pstest.ServerReactorOption{FuncName: "Seek", Reactor: seeks{}})
	fmt.Println(server.Addr)
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
