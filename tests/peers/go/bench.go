// bench.go - the lines `join` and `bench` of peer.c, and SET NX by hand.
//
// Instants are kept as numbers and written when all is over, so that the loop
// does nothing but lock and unlock.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Whether it is measured: then libraries have the settings of their guides.
var measured = os.Getenv("PEER_MEASURED") != ""

func (l *lane) join(other string, asked int64) (err error) {
	found, ok := lanes.Load(other)
	if !ok || found.(*lane).client == nil {
		return errors.New("no client in " + other)
	}
	l.client, err = found.(*lane).client.share()
	if err == nil {
		l.answer("joined", asked, other)
	}
	return err
}

type turn [4]int64 // asked, got, gave, done

func (l *lane) turn(key string, hold time.Duration) (t turn, err error) {
	t[0] = nowNs()
	if _, err = l.client.lock(key, true); err != nil {
		return t, err
	}
	t[1] = nowNs()
	if hold > 0 {
		time.Sleep(hold)
	}
	t[2] = nowNs()
	err = l.client.unlock(key)
	t[3] = nowNs()
	return t, err
}

func writeTurns(path string, turns []turn) error {
	var text strings.Builder
	for _, t := range turns {
		fmt.Fprintf(&text, "%d %d %d %d\n", t[0], t[1], t[2], t[3])
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// LANE bench KEY KEYS MS TURNS HOLD_US LOG
func (l *lane) bench(w []string, begun int64) error {
	var number [4]int64
	for i := range number {
		number[i], _ = strconv.ParseInt(w[3+i], 10, 64)
	}
	keys, ms, most := number[0], number[1], number[2]
	turns := make([]turn, 0, 1024)
	for (ms == 0 || nowNs() < begun+ms*1e6) &&
		(most == 0 || int64(len(turns)) < most) {
		key := w[2]
		if keys > 1 {
			key += "-" + strconv.FormatInt(int64(len(turns))%keys, 10)
		}
		t, err := l.turn(key, time.Duration(number[3])*time.Microsecond)
		if err != nil {
			return err
		}
		turns = append(turns, t)
	}
	if w[7] != "-" {
		if err := writeTurns(w[7], turns); err != nil {
			return err
		}
	}
	l.answer("done", begun, strconv.Itoa(len(turns)))
	return nil
}

// ---- SET NX PX, compare before deleting, tried every 100 milliseconds

var deleteMine = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then
	return redis.call("DEL", KEYS[1]) end return 0`)

type setNxClient struct {
	redis *redis.Client
	lease time.Duration
	held  map[string]string
}

func openSetNx(at string, lease time.Duration) (client, error) {
	return &setNxClient{redis.NewClient(&redis.Options{Addr: at}), lease,
		map[string]string{}}, nil
}

func (s *setNxClient) share() (client, error) {
	return &setNxClient{s.redis, s.lease, map[string]string{}}, nil
}

func (s *setNxClient) lock(key string, wait bool) (string, error) {
	mine := make([]byte, 16)
	if _, err := rand.Read(mine); err != nil {
		return "", err
	}
	value := hex.EncodeToString(mine)
	for {
		ok, err := s.redis.SetNX(anyTime, key, value, s.lease).Result()
		if err != nil {
			return "", err
		}
		if ok {
			s.held[key] = value
			return "", nil
		}
		if !wait {
			return "", errBusy
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *setNxClient) unlock(key string) error {
	n, err := deleteMine.Run(anyTime, s.redis, []string{key},
		s.held[key]).Int()
	delete(s.held, key)
	if err == nil && n == 0 {
		err = errNotHere
	}
	return err
}

func (s *setNxClient) renew(string) (bool, error) { return false, nil }
