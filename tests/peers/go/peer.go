// peer.go - the lines that peer.c describes, for libraries in Go.
//
// Knows etcd's clientv3/concurrency (KIND etcd), redsync, bsm/redislock, and
// go-zookeeper's Lock (go-zk), and SET NX by hand (setnx); AT is
// HOST:PORT[,HOST:PORT...][/ROOT].  Each lane is a goroutine with a client of
// its own, which for etcd and ZooKeeper is a session of its own.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redispool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var (
	errBusy    = errors.New("held by another")
	errNotHere = errors.New("not held here")
	saying     sync.Mutex
	anyTime    = context.Background()
	lanes      sync.Map // by name
)

type client interface {
	lock(key string, wait bool) (string, error) // errBusy if it may not wait
	unlock(key string) error
	renew(key string) (known bool, err error)
	share() (client, error) // for another lane, on the same connections
}

func nowNs() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

// ---- etcd

type etcdClient struct {
	session *concurrency.Session
	lease   time.Duration
	held    map[string]*concurrency.Mutex
}

func openEtcd(at string, lease time.Duration) (client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(at, ","),
		DialTimeout: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	return newSession(c, lease)
}

// A mutex belongs to a session: two lanes of one session would both hold it.
func newSession(c *clientv3.Client, lease time.Duration) (client, error) {
	s, err := concurrency.NewSession(c,
		concurrency.WithTTL(int((lease+time.Second-1)/time.Second)))
	return &etcdClient{s, lease, map[string]*concurrency.Mutex{}}, err
}

func (e *etcdClient) share() (client, error) {
	return newSession(e.session.Client(), e.lease)
}

func (e *etcdClient) lock(key string, wait bool) (string, error) {
	m := concurrency.NewMutex(e.session, key)
	var err error
	if wait {
		err = m.Lock(anyTime)
	} else {
		err = m.TryLock(anyTime)
	}
	if errors.Is(err, concurrency.ErrLocked) {
		return "", errBusy
	}
	if err != nil {
		return "", err
	}
	e.held[key] = m
	if measured {
		return "", nil // what asks for the token is no part of the lock
	}
	got, err := e.session.Client().Get(anyTime, m.Key())
	if err != nil || len(got.Kvs) != 1 {
		return "", fmt.Errorf("no key of ours: %v", err)
	}
	return strconv.FormatInt(got.Kvs[0].CreateRevision, 10), nil
}

func (e *etcdClient) unlock(key string) error {
	m := e.held[key]
	if m == nil {
		m = concurrency.NewMutex(e.session, key)
	}
	delete(e.held, key)
	return m.Unlock(anyTime)
}

func (e *etcdClient) renew(string) (bool, error) { return false, nil }

// ---- redsync

type redsyncClient struct {
	sync  *redsync.Redsync
	lease time.Duration
	held  map[string]*redsync.Mutex
}

func openRedsync(at string, lease time.Duration) (client, error) {
	var pools []redispool.Pool
	for _, one := range strings.Split(at, ",") {
		// Of several servers one that has died must say so at once.
		pools = append(pools, goredis.NewPool(redis.NewClient(
			&redis.Options{Addr: one, MaxRetries: -1})))
	}
	return &redsyncClient{redsync.New(pools...), lease,
		map[string]*redsync.Mutex{}}, nil
}

func (r *redsyncClient) share() (client, error) {
	return &redsyncClient{r.sync, r.lease, map[string]*redsync.Mutex{}}, nil
}

func (r *redsyncClient) of(key string) *redsync.Mutex {
	return r.sync.NewMutex(key, redsync.WithExpiry(r.lease),
		redsync.WithTries(100000))
}

func (r *redsyncClient) lock(key string, wait bool) (string, error) {
	m := r.of(key)
	var err error
	if wait {
		err = m.Lock()
	} else {
		err = m.TryLock()
	}
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return "", errBusy
	}
	if err == nil {
		r.held[key] = m
	}
	return "", err
}

func (r *redsyncClient) unlock(key string) error {
	m := r.held[key]
	if m == nil {
		m = r.of(key)
	}
	delete(r.held, key)
	ok, err := m.Unlock()
	if err == nil && !ok {
		err = errNotHere
	}
	return err
}

func (r *redsyncClient) renew(key string) (bool, error) {
	ok, err := r.held[key].Extend()
	if err == nil && !ok {
		err = errNotHere
	}
	return true, err
}

// ---- bsm/redislock

type bsmClient struct {
	locker *redislock.Client
	lease  time.Duration
	held   map[string]*redislock.Lock
}

func openBsm(at string, lease time.Duration) (client, error) {
	c := redis.NewClient(&redis.Options{Addr: at})
	return &bsmClient{redislock.New(c), lease,
		map[string]*redislock.Lock{}}, nil
}

func (b *bsmClient) share() (client, error) {
	return &bsmClient{b.locker, b.lease, map[string]*redislock.Lock{}}, nil
}

func (b *bsmClient) lock(key string, wait bool) (string, error) {
	strategy := redislock.NoRetry()
	if wait {
		strategy = redislock.LinearBackoff(20 * time.Millisecond)
	}
	if wait && measured { // as its guide has it
		strategy = redislock.LinearBackoff(100 * time.Millisecond)
	}
	// Without a deadline it gives up after the time to live.
	until, cancel := context.WithTimeout(anyTime, time.Hour)
	defer cancel()
	l, err := b.locker.Obtain(until, key, b.lease,
		&redislock.Options{RetryStrategy: strategy})
	if errors.Is(err, redislock.ErrNotObtained) {
		return "", errBusy
	}
	if err == nil {
		b.held[key] = l
	}
	return "", err
}

func (b *bsmClient) unlock(key string) error {
	l := b.held[key]
	if l == nil {
		return errNotHere
	}
	delete(b.held, key)
	return l.Release(anyTime)
}

func (b *bsmClient) renew(key string) (bool, error) {
	return true, b.held[key].Refresh(anyTime, b.lease, nil)
}

// ---- go-zookeeper

type zkClient struct {
	conn *zk.Conn
	root string
	held map[string]*zk.Lock
}

func openZk(at string, lease time.Duration) (client, error) {
	hosts, root, _ := strings.Cut(at, "/")
	conn, _, err := zk.Connect(strings.Split(hosts, ","), lease,
		zk.WithLogInfo(false))
	return &zkClient{conn, "/" + root, map[string]*zk.Lock{}}, err
}

func (z *zkClient) share() (client, error) {
	return &zkClient{z.conn, z.root, map[string]*zk.Lock{}}, nil
}

// It has no try: who may not wait looks whether anybody is there.
func (z *zkClient) lock(key string, wait bool) (string, error) {
	path := z.root + "/" + key
	if !wait {
		there, _, err := z.conn.Children(path)
		if err == nil && len(there) > 0 {
			return "", errBusy
		}
		if err != nil && err != zk.ErrNoNode {
			return "", err
		}
	}
	l := zk.NewLock(z.conn, path, zk.WorldACL(zk.PermAll))
	err := l.Lock()
	if err == nil {
		z.held[key] = l
	}
	return "", err
}

func (z *zkClient) unlock(key string) error {
	l := z.held[key]
	if l == nil {
		return errNotHere
	}
	delete(z.held, key)
	return l.Unlock()
}

func (z *zkClient) renew(string) (bool, error) { return false, nil }

// ---- Lanes

type lane struct {
	name    string
	lines   chan []string
	client  client
	several bool
}

func (l *lane) answer(word string, asked int64, text string) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf("%s %s %d %d %s\n", l.name, word, asked, nowNs(),
		strings.ReplaceAll(text, "\n", " "))
}

func section(folder string, asked int64) string {
	got := nowNs()
	inside, alone := filepath.Join(folder, "inside0"), 1
	if os.Mkdir(inside, 0o700) != nil {
		alone = 2
	}
	f, err := os.OpenFile(filepath.Join(folder, "sections"),
		os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString("x")
		f.Close()
	}
	if err != nil {
		panic(err)
	}
	time.Sleep(200 * time.Microsecond)
	if alone == 1 {
		os.Remove(inside)
	}
	return fmt.Sprintf("%d %d %d %d\n", asked, got, nowNs(), alone)
}

func count(folder string) int64 {
	if is, err := os.Stat(filepath.Join(folder, "sections")); err == nil {
		return is.Size()
	}
	return 0
}

func (l *lane) storm(w []string, begun int64) error {
	target, _ := strconv.ParseInt(w[3], 10, 64)
	least, _ := strconv.ParseInt(w[4], 10, 64)
	var log strings.Builder
	own := int64(0)
	for (count(w[5]) < target || own < least) && nowNs() < begun+300e9 {
		asked := nowNs()
		if _, err := l.client.lock(w[2], true); err != nil {
			return err
		}
		log.WriteString(section(w[5], asked))
		// Of several servers one that died may leave too few to agree.
		if err := l.client.unlock(w[2]); err != nil && !l.several {
			return err
		}
		own++
		time.Sleep(time.Duration(rand.Intn(4000)) * time.Microsecond)
	}
	if err := os.WriteFile(w[6], []byte(log.String()), 0o600); err != nil {
		return err
	}
	l.answer("done", begun, strconv.FormatInt(own, 10))
	return nil
}

func (l *lane) open(w []string) (err error) {
	ms, _ := strconv.Atoi(w[4])
	l.several = w[2] == "redsync" && strings.Contains(w[3], ",")
	make := map[string]func(string, time.Duration) (client, error){
		"etcd": openEtcd, "redsync": openRedsync, "bsm": openBsm,
		"go-zk": openZk, "setnx": openSetNx}[w[2]]
	l.client, err = make(w[3], time.Duration(ms)*time.Millisecond)
	return err
}

func (l *lane) obey(w []string, asked int64) error {
	switch w[1] {
	case "open":
		err := l.open(w)
		if err == nil {
			l.answer("opened", asked, w[2])
		}
		return err
	case "lock", "try":
		token, err := l.client.lock(w[2], w[1] == "lock")
		if err == nil {
			l.answer("held", asked, token)
		} else if err == errBusy && w[1] == "try" {
			l.answer("busy", asked, "")
			return nil
		}
		return err
	case "unlock":
		if err := l.client.unlock(w[2]); err != nil {
			l.answer("refused", asked, err.Error())
		} else {
			l.answer("given", asked, "")
		}
	case "renew":
		if known, err := l.client.renew(w[2]); !known {
			l.answer("none", asked, "")
		} else if err != nil {
			l.answer("refused", asked, err.Error())
		} else {
			l.answer("renewed", asked, "")
		}
	case "storm":
		return l.storm(w, asked)
	case "join":
		return l.join(w[2], asked)
	case "bench":
		return l.bench(w, asked)
	case "close":
		l.client = nil
		l.answer("closed", asked, "")
	default:
		return errors.New("no such verb: " + w[1])
	}
	return nil
}

func (l *lane) run() {
	for w := range l.lines {
		asked := nowNs()
		if err := l.obey(w, asked); err != nil {
			l.answer("failed", asked, err.Error())
		}
	}
}

func main() {
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		w := strings.Fields(in.Text())
		if w[1] == "crash" {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		made, known := lanes.LoadOrStore(w[0],
			&lane{name: w[0], lines: make(chan []string, 16)})
		if !known {
			go made.(*lane).run()
		}
		made.(*lane).lines <- w
	}
}
