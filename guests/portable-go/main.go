// Probes in Go: what its runtime and its library make of each wall. Arguments and output are those of
// guests/portable, whose table names them too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

var probes = map[string]func(words []string){
	"go_files":    files,
	"go_given":    given,
	"go_routines": routines,
	"go_serve":    serve,
	"go_panic":    panics,
}

func main() {
	if len(os.Args) < 2 || probes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: portable-go PROBE ARGUMENT…")
		os.Exit(2)
	}
	probes[os.Args[1]](os.Args[2:])
}

// says prints what a call came to, in words that both systems have.
func says(call string, err error) {
	kinds := []struct {
		err  error
		name string
	}{
		{fs.ErrNotExist, "not there"}, {fs.ErrExist, "there already"}, {syscall.EROFS, "read-only"},
		{fs.ErrPermission, "not permitted"}, {syscall.ENOTDIR, "no folder"}, {syscall.ENOTEMPTY, "not empty"},
		{syscall.EXDEV, "elsewhere"},
	}
	if err == nil {
		fmt.Printf("%s: ok\n", call)
		return
	}
	for _, kind := range kinds {
		if errors.Is(err, kind.err) {
			fmt.Printf("%s: %s\n", call, kind.name)
			return
		}
	}
	fmt.Printf("%s: %v\n", call, err)
}

func files(words []string) {
	place := words[0]
	text, err := os.ReadFile(filepath.Join(place, "file"))
	says("open", err)
	fmt.Printf("read: %s\n", strings.ReplaceAll(string(text), "\n", "|"))
	entries, err := os.ReadDir(place)
	says("list", err)
	for _, entry := range entries {
		fmt.Printf("entry: %s %v\n", entry.Name(), entry.Type())
	}
	names := []string{}
	says("walk", filepath.WalkDir(place, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, place))
		return err
	}))
	fmt.Printf("walked: %s\n", strings.Join(names, " "))
	says("write", os.WriteFile(filepath.Join(place, "new"), []byte("written\n"), 0o644))
	says("mkdir", os.MkdirAll(filepath.Join(place, "one/two"), 0o755))
	says("rename", os.Rename(filepath.Join(place, "new"), filepath.Join(place, "one/two/renamed")))
	says("symlink", os.Symlink("two", filepath.Join(place, "one/link")))
	target, err := os.Readlink(filepath.Join(place, "one/link"))
	says("readlink", err)
	fmt.Printf("leads to: %s\n", target)
	long := time.Unix(1_000_000_000, 0)
	says("chtimes", os.Chtimes(filepath.Join(place, "file"), long, long))
	says("remove", os.Remove(filepath.Join(place, "link")))
	says("remove what is full", os.Remove(filepath.Join(place, "sub")))
	says("remove all", os.RemoveAll(filepath.Join(place, "sub")))
	temporary, err := os.CreateTemp("", "x")
	says("create below /tmp", err)
	if err == nil {
		says("close", temporary.Close())
	}
}

func given(words []string) {
	fmt.Printf("arguments: %q\n", words)
	variables := os.Environ()
	sort.Strings(variables)
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Printf("%s: %s\n", name, value)
	}
	folder, err := os.Getwd()
	says("getwd", err)
	fmt.Printf("folder: %s\n", folder)
	text, err := os.ReadFile("file")
	says("open file", err)
	fmt.Printf("read: %s\n", strings.ReplaceAll(string(text), "\n", "|"))
	input, err := io.ReadAll(os.Stdin)
	says("read input", err)
	fmt.Printf("input: %d bytes\n", len(input))
	fmt.Printf("this century: %t\n", time.Now().Year() >= 2026 && time.Now().Year() < 2100)
	os.Exit(7)
}

// routines lets its scheduler, timers and collector work.
func routines(_ []string) {
	const workers = 50
	results := make(chan int)
	for worker := range [workers]struct{}{} {
		go func(worker int) {
			time.Sleep(time.Millisecond)
			chunk := make([]byte, 1<<16)
			chunk[worker] = 1
			results <- worker
		}(worker)
	}
	sum := 0
	for range [workers]struct{}{} {
		sum += <-results
	}
	fmt.Printf("sum: %d\n", sum)
	select {
	case <-results:
		fmt.Println("timer: none")
	case <-time.After(20 * time.Millisecond):
		fmt.Println("timer: ok")
	}
}

// serve answers one request on the listener that it was given.
func serve(_ []string) {
	fmt.Printf("listeners: %s\n", os.Getenv("LISTEN_FDS"))
	// As WebAssembly Go waits in a poller only for what does not block, and else stops all of the program.
	says("set non-blocking", syscall.SetNonblock(3, true))
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	says("listener", err)
	if err != nil {
		return
	}
	served := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		fmt.Fprint(answer, strings.ToUpper(request.Method+" "+request.URL.Path+" "+string(body)))
		close(served)
	})}
	go func() { _ = server.Serve(listener) }()
	<-served
	says("shutdown", server.Shutdown(context.Background()))
}

func panics(_ []string) {
	var nothing map[string]int
	fmt.Println("panic: begins")
	nothing["x"] = 1
}
