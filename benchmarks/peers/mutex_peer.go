// mutex_peer.go - Go's clientv3/concurrency.Mutex as a peer; peer.h says how.
//
//	mutex_peer ENDPOINT KEY
//
// Plain etcd for Go: one client a process.  A Mutex is its session's, so each
// thread has a session of its own.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"golang.org/x/sys/unix"
)

const threads = 4

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The clock that all processes share.
func now() int64 {
	var t unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &t))
	return t.Nano()
}

func compete(m *concurrency.Mutex, worker int, end int64, ret *strings.Builder) {
	for now() < end {
		asked := now()
		check(m.Lock(context.Background()))
		got, gave := now(), now()
		check(m.Unlock(context.Background()))
		fmt.Fprintln(ret, worker, asked, got, gave)
	}
}

func run(mutexes []*concurrency.Mutex, end int64, file string) {
	var logs [threads]strings.Builder
	var all sync.WaitGroup
	for i, m := range mutexes {
		all.Add(1)
		go func(i int, m *concurrency.Mutex) {
			defer all.Done()
			compete(m, i, end, &logs[i])
		}(i, m)
	}
	all.Wait()
	f, err := os.Create(file)
	check(err)
	for i := range logs {
		_, err = f.WriteString(logs[i].String())
		check(err)
	}
	check(f.Close())
}

func main() {
	client, err := clientv3.New(
		clientv3.Config{Endpoints: []string{os.Args[1]}})
	check(err)
	var mutexes []*concurrency.Mutex
	for i := 0; i < threads; i++ {
		session, err := concurrency.NewSession(client)
		check(err)
		mutexes = append(mutexes, concurrency.NewMutex(session, os.Args[2]))
	}
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("ready 0")
	for in.Scan() {
		words := strings.SplitN(in.Text(), " ", 3)
		switch words[0] {
		case "take":
			check(mutexes[0].Lock(context.Background()))
			fmt.Println("held", now())
		case "give":
			at := now()
			check(mutexes[0].Unlock(context.Background()))
			fmt.Println("given", at)
		default:
			end, err := strconv.ParseInt(words[1], 10, 64)
			check(err)
			run(mutexes, end, words[2])
			fmt.Println("done 0")
		}
	}
}
