package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/term"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// connection is how a running etcd is reached.
type connection struct {
	options      clusterstate.ConnectOptions
	passwordFile string
	// elsewhere reports whether the command line names another store; nil for never. ETCDCTL_ENDPOINTS does not count then.
	elsewhere func() bool
	stdin     *os.File
	stderr    io.Writer
}

// environment are the flags that etcdctl reads from a variable, too.
var environment = []string{"endpoints", "cacert", "cert", "key", "user", "password", "dial-timeout"}

// environmentHelp says so.
const environmentHelp = `The flags of etcd are those of etcdctl. ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_CERT,
ETCDCTL_KEY, ETCDCTL_USER, ETCDCTL_PASSWORD and ETCDCTL_DIAL_TIMEOUT stand for flags that
are not there. The password of --user comes from --password-file, ETCDCTL_PASSWORD or a
prompt; one on the command line can be seen by other users.`

// addFlags adds the flags, which etcd's tools have under the same names.
func (o *connection) addFlags(c *cobra.Command, endpointsUsage string) {
	f := c.Flags()
	f.StringSliceVar(&o.options.Endpoints, "endpoints", nil, endpointsUsage+" (http, https or unix)")
	f.StringVar(&o.options.CACert, "cacert", "", "authorities that may have signed etcd's certificate (PEM file)")
	f.StringVar(&o.options.Cert, "cert", "", "client certificate (PEM file)")
	f.StringVar(&o.options.Key, "key", "", "key of the client certificate (PEM file)")
	f.StringVar(&o.options.User, "user", "", "etcd user, or user:password")
	f.StringVar(&o.options.Password, "password", "", "password of the etcd user")
	f.StringVar(&o.passwordFile, "password-file", "", "file with the password of the etcd user")
	f.DurationVar(&o.options.DialTimeout, "dial-timeout", clusterstate.DefaultDialTimeout, "how long to wait for etcd's first answer")
	addRule(c, func([]string) error {
		o.stdin, o.stderr = os.Stdin, c.ErrOrStderr()
		return o.readEnvironment(c)
	})
	exclusive(c, "password", "password-file")
	notEmpty(c, "endpoints")
	notEmpty(c, "password-file")
	addRule(c, func([]string) error {
		p := &o.options
		switch {
		case !o.given() && p.CACert+p.Cert+p.Key+p.User+p.Password+o.passwordFile != "":
			return usageError(c, "--cacert, --cert, --key, --user and --password are for --endpoints")
		case p.DialTimeout <= 0:
			return usageError(c, "--dial-timeout is positive, not %s", p.DialTimeout)
		}
		return nil
	})
	c.MarkFlagFilename("password-file")
	completeNothing(c, "endpoints", "user", "password", "dial-timeout")
}

// readEnvironment sets the flags that are not there from etcdctl's variables, if a running etcd is named.
func (o *connection) readEnvironment(c *cobra.Command) error {
	if o.elsewhere != nil && o.elsewhere() {
		return nil
	}
	for _, name := range environment {
		if name != "endpoints" && !o.given() {
			return nil
		}
		variable := "ETCDCTL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value := os.Getenv(variable)
		if value == "" || c.Flags().Changed(name) || name == "password" && o.passwordFile != "" {
			continue
		}
		if err := c.Flags().Set(name, value); err != nil {
			return usageError(c, "%s cannot be %q", variable, value)
		}
	}
	return nil
}

// given reports whether a running etcd was named.
func (o *connection) given() bool { return len(o.options.Endpoints) > 0 }

func (o *connection) connect(ctx context.Context) (*clientv3.Client, error) {
	options := o.options
	var err error
	if options.Password, err = o.password(); err != nil {
		return nil, err
	}
	if user, password, ok := strings.Cut(options.User, ":"); ok && options.Password == "" {
		options.User, options.Password = user, password
	}
	if options.User != "" && options.Password == "" && o.stdin != nil && term.IsTerminal(int(o.stdin.Fd())) {
		fmt.Fprint(o.stderr, "Password: ")
		password, err := term.ReadPassword(int(o.stdin.Fd()))
		fmt.Fprintln(o.stderr)
		if err != nil {
			return nil, fmt.Errorf("read the password: %w", err)
		}
		options.Password = string(password)
	}
	return clusterstate.Connect(ctx, options)
}

// password returns the password of a flag or a file.
func (o *connection) password() (string, error) {
	if o.passwordFile == "" {
		return o.options.Password, nil
	}
	content, err := os.ReadFile(o.passwordFile)
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(content), "\r\n")
	if password == "" {
		return "", fmt.Errorf("%s: holds no password", o.passwordFile)
	}
	return password, nil
}

// String names the etcd in errors.
func (o *connection) String() string { return strings.Join(o.options.Endpoints, ",") }

// completeNothing keeps the shell from offering files for these flags.
func completeNothing(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}
