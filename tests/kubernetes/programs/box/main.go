// Is the only program of a small image: it pauses, serves, fetches, fails, or uses memory until it is killed.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const fetchTimeout = 3 * time.Second

func main() {
	command, argument := "pause", ""
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	if len(os.Args) > 2 {
		argument = os.Args[2]
	}
	switch command {
	case "pause":
		fmt.Println("paused")
		pause()
	case "serve":
		serve(argument)
	case "fetch":
		fetch(argument)
	case "fail":
		fail(argument)
	case "eat":
		eat()
	}
}

// pause waits for a signal and reaps children, as the first process of a Pod has to.
func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
	}
}

// serve answers every request with the name of the Pod.
func serve(address string) {
	name, _ := os.Hostname()
	go pauseAndExit()
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		fmt.Fprintln(w, name)
	})))
	os.Exit(1)
}

func pauseAndExit() {
	pause()
	os.Exit(0)
}

// fetch prints the answer of a server.
func fetch(url string) {
	client := http.Client{Timeout: fetchTimeout}
	response, err := client.Get(url)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer response.Body.Close()
	io.Copy(os.Stdout, response.Body)
}

// fail ends with exit code 3 and the given termination message.
func fail(message string) {
	os.WriteFile("/dev/termination-log", []byte(message), 0o644)
	os.Exit(3)
}

// eat uses memory until the kernel kills the process.
func eat() {
	var held [][]byte
	for {
		block := make([]byte, 4<<20)
		for i := range block {
			block[i] = 1
		}
		held = append(held, block)
		fmt.Println(len(held)*4, "MiB")
	}
}
