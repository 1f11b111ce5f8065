package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// TestClientLog logs errors as client-go does.
func TestClientLog(t *testing.T) {
	for err, want := range map[error]bool{
		context.Canceled:                        false,
		fmt.Errorf("get: %w", context.Canceled): false,
		context.DeadlineExceeded:                true,
		errors.New("connection reset"):          true,
	} {
		var log strings.Builder
		klog.SetSlogLogger(slog.New(clientLog{slog.NewTextHandler(&log, nil)}))
		t.Cleanup(klog.ClearLogger)
		klog.Background().Error(err, "unexpected error")
		klog.Background().WithName("reflector").WithValues("type", "Service").Error(err, "unexpected error")
		if got := strings.Count(log.String(), err.Error()); got != map[bool]int{true: 2}[want] {
			t.Errorf("%v: logged %d times: %s", err, got, &log)
		}
	}
}
