// Command go-operator gives each Network, a custom resource, a VNI and some /28 in a row, and writes them to its
// status.
//
// Several may run at once, none of them as a leader, and each may end at any moment: what was given to a Network has
// its UID as the owner, so that a second request for the same Network returns the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rangekeeper/rangekeeper/controlplane/ledgerobject"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

const help = `Gives each Network a VNI and subnets, and takes them back when it is deleted. Apply crd.yaml and rbac.yaml first.

usage: go-operator [FLAG...]

It ends with SIGTERM. Exit codes: 0 after SIGTERM, 1 if it cannot begin, 2 if a flag is wrong.

`

// vxlan is the number of the UDP port of VXLAN: as a VNI it would make packet filters hard to read.
const vxlan = "4789"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` that says how to reach the cluster; in a Pod of it none is needed")
	vnis := flag.String("vnis", "4096-16777215", "`range` of VNIs, with "+vxlan+" in it, which is never given; the same for all replicas")
	subnets := flag.String("subnets", "10.0.0.0/16/28", "`range` of subnets, a network and their length; the same for all replicas")
	interval := flag.Duration("audit-interval", 5*time.Minute, "`time` between two audits of the ledgers")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fail(2, fmt.Errorf("what is %q? There are only flags, see --help", flag.Arg(0)))
	}
	if *interval <= 0 {
		fail(2, fmt.Errorf("--audit-interval is %v, and must be more than 0", *interval))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := run(ctx, *kubeconfig, *vnis, *subnets, *interval)
	if errors.Is(err, rangekeeper.ErrInvalidArgument) {
		fail(2, err)
	}
	if err != nil && ctx.Err() == nil {
		fail(1, err)
	}
}

func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, "go-operator:", err)
	os.Exit(code)
}

func run(ctx context.Context, kubeconfig, vnis, subnets string, interval time.Duration) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("no cluster is known, name a file by --kubeconfig: %w", err)
	}
	// The client's own limit of 5 requests in a second would hold up the ledgers; the API server has limits of its own.
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	v, err := openPool(client, "vnis", rangekeeper.Pool{Range: vnis, Choice: rangekeeper.Lowest, Exclude: []string{vxlan}})
	if err != nil {
		return err
	}
	defer v.ledger.Close()
	s, err := openPool(client, "subnets", rangekeeper.Pool{Range: subnets, Choice: rangekeeper.Lowest})
	if err != nil {
		return err
	}
	defer s.ledger.Close()
	return newOperator(client, v, s).run(ctx, interval)
}

// coolDown is for how long no other Network is given what was released. One that is there after all, as etcd was
// restored meanwhile, gets it back in this time.
const coolDown = 15 * time.Minute

// openPool opens the ledger of a flag. rbac.yaml names the ConfigMaps, too.
func openPool(client dynamic.Interface, flag string, values rangekeeper.Pool) (*pool, error) {
	values.CoolDown, values.CoolDownAtMost = coolDown, 1000
	ledger, err := ledgerstore.New(ledgerobject.ConfigMap(client, "default", "network-"+flag, "ledger"), values)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &pool{name: flag, ledger: ledger, leaks: rangekeeper.OwnerLeaks{Passes: passes}}, nil
}
