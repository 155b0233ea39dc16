// What the pods of the test run.
//
//	probe io-uring     how the kernel answers io_uring_setup(2): its errno's name, or "open"
//	probe serve PORT   HTTP: /version tells $VERSION, /ready and /alive are 200 while /tmp/ready, or /tmp/alive, exists
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "io-uring":
		fmt.Println(ioUring())
	case len(os.Args) == 3 && os.Args[1] == "serve":
		serve(os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: probe io-uring | probe serve PORT")
		os.Exit(2)
	}
}

func ioUring() string {
	const ioUringSetup = 425
	// No memory for the answer: where the call exists that is EFAULT.
	_, _, errno := syscall.Syscall(ioUringSetup, 1, 0, 0)
	switch errno {
	case syscall.ENOSYS:
		return "ENOSYS"
	case syscall.EPERM:
		return "EPERM"
	default:
		return "open"
	}
}

func serve(port string) {
	http.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, os.Getenv("VERSION"))
	})
	http.HandleFunc("/ready", exists("/tmp/ready"))
	http.HandleFunc("/alive", exists("/tmp/alive"))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		fmt.Println("listening on", port)
		fmt.Fprintln(os.Stderr, http.ListenAndServe(":"+port, nil))
		os.Exit(1)
	}()
	<-ended
	fmt.Println("asked to end")
}

func exists(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(path); err != nil {
			http.Error(w, "no "+path, http.StatusServiceUnavailable)
		}
	}
}
