package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

// compactTimeout is how long it may take to leave the data in order.
const compactTimeout = 2 * time.Second

// dataDir is the etcd in this process.
type dataDir struct {
	command *cobra.Command
	dir     string
	etcd    *embedded.Etcd
}

func addDataDir(c *cobra.Command) ranges.Local {
	d := &dataDir{command: c}
	c.Flags().StringVar(&d.dir, "data-dir", "", "without --endpoints: directory of the data of the etcd in this process (default: rangekeeper below $XDG_DATA_HOME or ~/.local/share)")
	usage.Exclusive(c, "endpoints", "data-dir")
	usage.NotEmpty(c, "data-dir")
	c.MarkFlagDirname("data-dir")
	return d
}

func (d *dataDir) Given() bool { return d.command.Flags().Changed("data-dir") }

func (d *dataDir) String() string { return d.dir }

func (d *dataDir) Open(ctx context.Context, mayCreate bool) (_ *clientv3.Client, err error) {
	if d.dir == "" {
		if d.dir, err = defaultDataDir(); err != nil {
			return nil, err
		}
	}
	there, err := embedded.HasData(d.dir)
	switch {
	case err != nil:
		return nil, err
	case !there && !mayCreate:
		return nil, fmt.Errorf("no ranges are kept in %s yet: run rangekeeper init first, or name an etcd with --endpoints", d.dir)
	}
	if d.etcd, err = embedded.Start(ctx, embedded.Config{Dir: d.dir}); err != nil {
		return nil, err
	}
	if !there {
		fmt.Fprintf(d.command.ErrOrStderr(), "rangekeeper: created the data directory %s\n", d.dir)
	}
	return d.etcd.Client(), nil
}

func (d *dataDir) Close() {
	if d.etcd == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), compactTimeout)
	defer cancel()
	d.etcd.Compact(ctx) // the next command does it if this one cannot
	d.etcd.Close()
}

// dataDirHint says where the ranges are that were made without --endpoints.
func dataDirHint() string {
	dir, err := defaultDataDir()
	if err != nil {
		return ""
	}
	if there, err := embedded.HasData(dir); err != nil || !there {
		return ""
	}
	return "; the ranges that init made without --endpoints are in " + dir + ": name its member/snap/db with --etcd-snapshot and --skip-hash-check"
}

// defaultDataDir is where the XDG base directory specification wants data.
func defaultDataDir() (string, error) {
	data, err := xdgDir("XDG_DATA_HOME", ".local", "share")
	if err != nil {
		return "", fmt.Errorf("--data-dir or --endpoints is needed: %w", err)
	}
	return filepath.Join(data, "rangekeeper"), nil
}

// xdgDir is a base directory of that specification: the variable's, or else a
// directory below the user's.
func xdgDir(variable string, belowHome ...string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) { // to be ignored otherwise, by the specification
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(append([]string{home}, belowHome...)...), nil
}
