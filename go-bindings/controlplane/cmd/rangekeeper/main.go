// Command rangekeeper finds and mends leaked, lost and duplicate ClusterIPs and
// node ports.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
