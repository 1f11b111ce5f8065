package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/requesttimeout"
)

// TestRequestTimeout checks that the command stores --request-timeout before it starts the server.
func TestRequestTimeout(t *testing.T) {
	command := newCommand()
	if flag := command.Flags().Lookup("request-timeout"); flag == nil || flag.DefValue != requesttimeout.Default.String() {
		t.Errorf("the default of %+v is not %v", flag, requesttimeout.Default)
	}
	var seen time.Duration
	command.RunE = func(*cobra.Command, []string) error { seen = requesttimeout.Get(); return nil }
	command.SetArgs([]string{"--request-timeout=95s"})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	if seen != 95*time.Second {
		t.Errorf("the server starts with a request timeout of %v, want 95s", seen)
	}
}
