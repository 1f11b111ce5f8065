package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The ranges of a cluster for which none were ever given, as kubeadm has them.
const (
	DefaultServiceClusterIPRange = "10.96.0.0/12"
	DefaultServiceNodePortRange  = "30000-32767"
)

// The flags of kube-apiserver for them.
const (
	clusterIPRangeFlag = "--service-cluster-ip-range"
	nodePortRangeFlag  = "--service-node-port-range"
)

// settings are the stored part of a cluster's configuration: servers with other ranges
// rewrite the stored ones, and a flag left out must not lead to that.
type settings struct {
	ServiceClusterIPRange string `json:"serviceClusterIPRange"`
	ServiceNodePortRange  string `json:"serviceNodePortRange"`

	path            string
	clusterIPRanges []rangekeeper.Range
}

// settings returns the settings of the flags, or else of the last run, or else the defaults.
// Nothing is written yet.
func (c *Cluster) settings() (*settings, error) {
	s := &settings{path: c.file("settings.json")}
	content, err := os.ReadFile(s.path)
	if err == nil {
		err = json.Unmarshal(content, s)
		if err == nil {
			err = s.parse()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", s.path, err)
		}
	}
	known := !errors.Is(err, fs.ErrNotExist)
	if !known {
		s.ServiceClusterIPRange, s.ServiceNodePortRange, err = DefaultServiceClusterIPRange, DefaultServiceNodePortRange, nil
	}
	if err != nil {
		return nil, err
	}
	before := *s
	if c.config.ServiceClusterIPRange != "" {
		s.ServiceClusterIPRange = c.config.ServiceClusterIPRange
	}
	if c.config.ServiceNodePortRange != "" {
		s.ServiceNodePortRange = c.config.ServiceNodePortRange
	}
	if err := s.parse(); err != nil {
		return nil, err
	}
	if known {
		c.tellChange(clusterIPRangeFlag, before.ServiceClusterIPRange, s.ServiceClusterIPRange)
		c.tellChange(nodePortRangeFlag, before.ServiceNodePortRange, s.ServiceNodePortRange)
	}
	return s, nil
}

func (c *Cluster) tellChange(flag, before, now string) {
	if before != now {
		c.config.Progress(fmt.Sprintf("%s was %s in the last run, and is %s now", flag, before, now))
	}
}

// parse parses the ranges and replaces them by their canonical forms.
func (s *settings) parse() error {
	ranges, err := parseClusterIPRanges(s.ServiceClusterIPRange)
	if err != nil {
		return fmt.Errorf("%s: %w", clusterIPRangeFlag, err)
	}
	ports, err := rangekeeper.ParsePortRange(s.ServiceNodePortRange)
	if err != nil {
		return fmt.Errorf("%s: %w", nodePortRangeFlag, err)
	}
	var canonical []string
	for _, values := range ranges {
		canonical = append(canonical, values.String())
	}
	s.clusterIPRanges, s.ServiceClusterIPRange, s.ServiceNodePortRange = ranges, strings.Join(canonical, ","), ports.String()
	return nil
}

// parseClusterIPRanges returns one range, or two of different IP families.
func parseClusterIPRanges(text string) (ranges []rangekeeper.Range, err error) {
	for cidr := range strings.SplitSeq(text, ",") {
		values, err := rangekeeper.ParseCIDR(cidr)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(ranges, values.Excludes) {
			return nil, fmt.Errorf("%s: two ranges must be of different IP families", text)
		}
		ranges = append(ranges, values)
	}
	return ranges, nil
}

func (s *settings) write() error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(s.path, append(content, '\n'))
}
