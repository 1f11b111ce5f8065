// Package embedded runs an etcd inside the process: one member on loopback that
// keeps its data on disk as a real one does.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/snapshotfile"
)

// DefaultQuota is the size in bytes at which the database refuses to grow: the
// largest that etcd recommends.
const DefaultQuota = 8 << 30

// A restored data directory holds the member's name and peer URL, so both are
// fixed. Nobody connects to the peer URL of a single member; port 0 lets the
// system choose.
const (
	memberName = "rangekeeper"
	anyPort    = "http://127.0.0.1:0"
)

// Config says how [Start] runs etcd.
type Config struct {
	// Dir is the data directory; required. It is made if it does not exist.
	Dir string
	// Quota is the largest size of the database in bytes; 0 for DefaultQuota.
	Quota int64
}

// Etcd is a running member. It must be closed.
type Etcd struct {
	server *embed.Etcd
	client *clientv3.Client
	close  sync.Once
}

// Start runs an etcd on free ports of 127.0.0.1 and waits until it serves. Writes
// are synced to disk and the history is compacted to the last 5 minutes. It logs
// nothing but what ends it. A database that is there already is first read once,
// so that damage and use by another process come back as an error.
func Start(ctx context.Context, c Config) (*Etcd, error) {
	if c.Dir == "" {
		return nil, errors.New("embedded etcd: no data directory given")
	}
	loopback, err := url.Parse(anyPort)
	if err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Name = memberName
	config.Dir = c.Dir
	config.ListenClientUrls = []url.URL{*loopback}
	config.AdvertiseClientUrls = []url.URL{*loopback}
	config.ListenPeerUrls = []url.URL{*loopback}
	config.AdvertisePeerUrls = []url.URL{*loopback}
	config.InitialCluster = config.InitialClusterFromName(memberName)
	config.QuotaBackendBytes = c.Quota
	if c.Quota == 0 {
		config.QuotaBackendBytes = DefaultQuota
	}
	config.AutoCompactionMode = embed.CompactorModePeriodic
	config.AutoCompactionRetention = "5m"
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(quietLogger())

	if err := checkDatabase(ctx, c.Dir); err != nil {
		return nil, fmt.Errorf("embedded etcd in %s: %w", c.Dir, err)
	}
	e := new(Etcd)
	err = guard(func() error {
		e.server, err = embed.StartEtcd(config)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("embedded etcd in %s: %w", c.Dir, err)
	}
	select {
	case <-e.server.Server.ReadyNotify():
	case err = <-e.server.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		e.client, err = clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Logger: zap.NewNop()})
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("embedded etcd in %s: %w", c.Dir, err)
	}
	return e, nil
}

// Client is a client of this etcd over the network; Close closes it.
func (e *Etcd) Client() *clientv3.Client { return e.client }

// Endpoints are the URLs at which clients reach this etcd.
func (e *Etcd) Endpoints() []string {
	var urls []string
	for _, l := range e.server.Clients {
		urls = append(urls, "http://"+l.Addr().String())
	}
	return urls
}

// Close stops etcd and returns when its files are closed. It can be called again.
func (e *Etcd) Close() {
	e.close.Do(func() {
		if e.client != nil {
			e.client.Close() // the connection is gone, whatever it says
		}
		e.server.Close()
	})
}

// Restore makes a data directory for [Start] from an etcd snapshot file, plain or
// gzip-compressed. dir must not exist or be empty, and stays so if it fails.
func Restore(ctx context.Context, path, dir string, o snapshotfile.Options) error {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("restore %s: %s is not empty", path, dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("restore %s: %w", path, err)
	}
	f, err := snapshotfile.Open(ctx, path, o)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), ".rangekeeper-restore-")
	if err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	defer os.RemoveAll(partial) // nothing is left of it once it is renamed
	err = guard(func() error {
		return snapshot.NewV3(quietLogger()).Restore(snapshot.RestoreConfig{
			SnapshotPath:   f.PlainPath(),
			Name:           memberName,
			OutputDataDir:  partial,
			PeerURLs:       []string{anyPort},
			InitialCluster: memberName + "=" + anyPort,
			SkipHashCheck:  o.SkipHashCheck,
		})
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	return nil
}

// checkDatabase reads through the database in a data directory, if there is one.
// etcd itself waits for its lock forever, and ends the process if it is damaged.
func checkDatabase(ctx context.Context, dir string) error {
	f, err := snapshotfile.Open(ctx, filepath.Join(dir, "member", "snap", "db"), snapshotfile.Options{SkipHashCheck: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// guard turns a panic of etcd into an error: that is how it reports a damaged
// data directory.
func guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return fn()
}

// quietLogger writes only what makes etcd panic or give up, and makes it panic
// where it would end the process.
func quietLogger() *zap.Logger {
	core := zapcore.NewCore(
		zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig()),
		zapcore.Lock(os.Stderr),
		zapcore.DPanicLevel,
	)
	return zap.New(core, zap.WithFatalHook(zapcore.WriteThenPanic))
}
