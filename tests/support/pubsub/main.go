// A server that speaks Google Pub/Sub's protocol, in memory: pstest of Google's Go client.
// It prints its address, and runs until its input ends.
package main

import (
	"fmt"
	"io"
	"os"

	"cloud.google.com/go/pubsub/v2/pstest"
)

func main() {
	address := "127.0.0.1:0"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	server := pstest.NewServerWithAddress(address)
	fmt.Println(server.Addr)
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
