// Servers and clients of net/http, many at once, with the scheduler's signals flying.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const clients = 64

func main() {
	// The listener of net/http asks for MPTCP first and goes on with TCP.
	listener, err := net.Listen("tcp", os.Args[1])
	check(err)
	go http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		fmt.Fprint(answer, len(request.URL.Path))
	}))
	stop := make(chan struct{})
	preempt(stop)
	fmt.Println("fresh", requests(&http.Transport{DisableKeepAlives: true}))
	fmt.Println("kept alive", requests(&http.Transport{MaxIdleConnsPerHost: clients}))
	close(stop)
	_, err = net.Dial("tcp", os.Args[2])
	fmt.Println("closed", errors.Is(err, syscall.ECONNREFUSED))
	_, err = net.Dial("tcp", os.Args[3])
	fmt.Println("not granted", errors.Is(err, syscall.EACCES))
	datagrams(os.Args[1])
}

// Keeps a goroutine busy on each processor, so that the runtime interrupts threads with SIGURG.
func preempt(stop chan struct{}) {
	for range runtime.GOMAXPROCS(0) {
		go func() {
			var spun atomic.Int64
			for {
				select {
				case <-stop:
					return
				default:
					spun.Add(1)
				}
			}
		}()
	}
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				runtime.GC()
			}
		}
	}()
}

// Asks from many goroutines at once and adds up what is answered.
func requests(transport *http.Transport) int64 {
	client := &http.Client{Transport: transport}
	var total atomic.Int64
	var group sync.WaitGroup
	for range clients {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 4 {
				answer, err := client.Get("http://" + os.Args[1] + "/abc")
				check(err)
				body, err := io.ReadAll(answer.Body)
				check(err)
				answer.Body.Close()
				var length int64
				fmt.Sscan(string(body), &length)
				total.Add(length)
			}
		}()
	}
	group.Wait()
	return total.Load()
}

func datagrams(place string) {
	server, err := net.ListenPacket("udp", place)
	check(err)
	client, err := net.Dial("udp", place)
	check(err)
	buffer := make([]byte, 16)
	_, err = client.Write([]byte("ping"))
	check(err)
	length, from, err := server.ReadFrom(buffer)
	check(err)
	_, err = server.WriteTo(buffer[:length], from)
	check(err)
	length, err = client.Read(buffer)
	check(err)
	fmt.Println("datagram", string(buffer[:length]))
}

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}
