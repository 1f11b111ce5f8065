package server

import (
	"context"
	"errors"
	"log/slog"
)

// clientLog is the log of the client libraries. They log an error for each request that ends because the program stops,
// which is none.
type clientLog struct{ slog.Handler }

func (l clientLog) Handle(ctx context.Context, record slog.Record) error {
	cancelled := false
	record.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		cancelled = ok && errors.Is(err, context.Canceled)
		return !cancelled
	})
	if cancelled {
		return nil
	}
	return l.Handler.Handle(ctx, record)
}

func (l clientLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return clientLog{l.Handler.WithAttrs(attrs)}
}

func (l clientLog) WithGroup(name string) slog.Handler { return clientLog{l.Handler.WithGroup(name)} }
