// Command image writes the OCI image of rangekeeper as an image layout: for each platform one layer, with the program
// and licences, on an empty base. It prints the digest of the image's index.
//
//	image -out DIR -version 0.1.0 -revision COMMIT -created 2026-01-02T03:04:05Z -license LICENSE -notices FILE \
//		linux/amd64=PROGRAM...
//
// The same arguments and files give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const (
	// user owns nothing and is no user of a host: the one that other images without a shell use.
	user    = "65532:65532"
	program = "/rangekeeper"
	// annotation begins the keys that the OCI image specification defines (annotations.md).
	annotation = "org.opencontainers.image."
)

type config struct {
	out, version, revision, license, notices string
	created                                  time.Time
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	var c config
	var created string
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.StringVar(&c.out, "out", "", "directory of the image layout, which must not exist")
	f.StringVar(&c.version, "version", "", "version of the program")
	f.StringVar(&c.revision, "revision", "", "commit that it is built from")
	f.StringVar(&c.license, "license", "", "file of the licence")
	f.StringVar(&c.notices, "notices", "", "file of the licences of others")
	f.StringVar(&created, "created", "", "time of all files, in RFC 3339")
	err := f.Parse(args)
	if err != nil {
		return err
	}
	if c.created, err = time.Parse(time.RFC3339, created); err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	if _, err := os.Stat(c.out); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("-out: %q exists or cannot be looked at: %v", c.out, err)
	}
	if f.NArg() == 0 {
		return errors.New("no program is named: OS/ARCHITECTURE=FILE")
	}
	index, err := c.index(f.Args())
	if err != nil {
		return err
	}
	// The layout's own index names the image, so that tools find it without a digest.
	named := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{
		Annotations: map[string]string{annotation + "ref.name": c.version},
	}})
	written, err := layout.Write(c.out, named)
	if err != nil {
		return err
	}
	read, err := written.ImageIndex()
	if err != nil {
		return err
	}
	if err := validate.Index(read); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err == nil {
		_, err = fmt.Fprintln(stdout, digest)
	}
	return err
}

// index returns the image for all platforms, each of which is named with its program as OS/ARCHITECTURE=FILE.
func (c *config) index(programs []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, of := range programs {
		name, file, ok := strings.Cut(of, "=")
		if !ok {
			return nil, fmt.Errorf("%q: expected OS/ARCHITECTURE=FILE", of)
		}
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", of, err)
		}
		image, err := c.image(platform, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: plainImage{image}, Descriptor: v1.Descriptor{Platform: platform}})
	}
	annotated, ok := mutate.Annotations(index, c.annotations()).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("annotations of the index")
	}
	return annotated, nil
}

// plainImage has no type of artifact in its descriptor. An image needs none, and a tool that does not know the field
// drops it: then the digest would change on the way to a registry.
type plainImage struct{ v1.Image }

func (plainImage) ArtifactType() (string, error) { return "", nil }

func (c *config) image(platform *v1.Platform, file string) (v1.Image, error) {
	files, err := c.files(file)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: c.created}, CreatedBy: "make dist", Comment: "rangekeeper and licences",
	}}); err != nil {
		return nil, err
	}
	settings, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	settings = settings.DeepCopy()
	settings.OS, settings.Architecture, settings.Variant = platform.OS, platform.Architecture, platform.Variant
	settings.Created = v1.Time{Time: c.created}
	settings.Config = v1.Config{Entrypoint: []string{program}, User: user, WorkingDir: "/", Labels: c.annotations()}
	if image, err = mutate.ConfigFile(image, settings); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(image, c.annotations()).(v1.Image)
	if !ok {
		return nil, errors.New("annotations of the image")
	}
	return annotated, nil
}

// files returns the layer: the program and licences, which root owns and all may read, and the folder of temporary
// files, into which a compressed snapshot is unpacked.
func (c *config) files(file string) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: c.created, Format: tar.FormatPAX}); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		path, name string
		mode       int64
	}{
		{file, program, 0o755},
		{c.license, "/LICENSE", 0o644},
		{c.notices, "/THIRD_PARTY_NOTICES", 0o644},
	} {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return nil, err
		}
		header := tar.Header{Name: strings.TrimPrefix(f.name, "/"), Mode: f.mode, Size: int64(len(content)), ModTime: c.created, Format: tar.FormatPAX}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

func (c *config) annotations() map[string]string {
	return map[string]string{
		annotation + "title":       "rangekeeper",
		annotation + "description": "Allocates ClusterIPs and node ports, and finds and repairs leaked, lost and duplicate ones",
		annotation + "licenses":    "Apache-2.0",
		annotation + "version":     c.version,
		annotation + "revision":    c.revision,
		annotation + "created":     c.created.UTC().Format(time.RFC3339),
	}
}
