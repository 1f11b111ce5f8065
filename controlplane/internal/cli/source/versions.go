package source

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
)

// ServerVersions returns the versions of the servers that were read, by address, or the errors of those that do not
// answer; nothing for a file.
func (s *Source) ServerVersions(ctx context.Context) map[string]string {
	all := map[string]string{}
	if !s.Online() {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	if s.OverAPI() {
		release, err := s.release(ctx)
		if err != nil {
			release = err.Error()
		}
		all[s.server] = release
		return all
	}
	for _, endpoint := range s.connection.Endpoints() {
		client, err := s.connect(ctx)
		if err == nil {
			status, failed := client.Status(ctx, endpoint)
			if err = failed; err == nil {
				all[endpoint] = "etcd " + status.Version
			}
		}
		if err != nil {
			all[endpoint] = err.Error()
		}
	}
	return all
}

// release returns that of the API server.
func (s *Source) release(ctx context.Context) (string, error) {
	config, err := s.kube.config()
	if err != nil {
		return "", err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var about version.Info
	if err := json.NewDecoder(answer.Body).Decode(&about); err != nil || about.GitVersion == "" {
		return "", fmt.Errorf("/version: %s", answer.Status)
	}
	return "kube-apiserver " + about.GitVersion, nil
}
