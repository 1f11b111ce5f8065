package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	// Registers RangeAllocation and its conversion to v1.
	_ "k8s.io/kubernetes/pkg/apis/core/install"
)

// envelopeRow is a RangeAllocation, encoded by the reference's storage codec.
type envelopeRow struct {
	Name  string `json:"name"`
	Range string `json:"range"`
	// Data is base64; null is an absent field, which the reference distinguishes from an empty one.
	Data *string `json:"data"`
	// ResourceVersion is in the metadata. A kube-apiserver clears it before it stores.
	ResourceVersion string `json:"resource_version"`
	// Protobuf, JSON and YAML are the stored values, in base64; null if the reference cannot encode the object.
	Protobuf string  `json:"protobuf"`
	JSON     string  `json:"json"`
	YAML     *string `json:"yaml"`
}

func envelopeRows() ([]any, error) {
	protobufCodec, err := storageCodec("application/vnd.kubernetes.protobuf")
	if err != nil {
		return nil, err
	}
	jsonCodec, err := storageCodec("application/json")
	if err != nil {
		return nil, err
	}
	yamlCodec, err := storageCodec("application/yaml")
	if err != nil {
		return nil, err
	}
	var rows []any
	for _, input := range envelopeInputs() {
		row := envelopeRow{Name: input.name, Range: input.object.Range, ResourceVersion: input.object.ResourceVersion}
		if input.object.Data != nil {
			data := base64.StdEncoding.EncodeToString(input.object.Data)
			row.Data = &data
		}
		if row.Protobuf, err = encode(protobufCodec, input.object); err != nil {
			return nil, fmt.Errorf("%s: %w", input.name, err)
		}
		if row.JSON, err = encode(jsonCodec, input.object); err != nil {
			return nil, fmt.Errorf("%s: %w", input.name, err)
		}
		// The one refusal is of a control character, which JSON has as it is.
		if text, err := encode(yamlCodec, input.object); err == nil {
			row.YAML = &text
		} else if !strings.Contains(err.Error(), "control characters are not allowed") {
			return nil, fmt.Errorf("%s: %w", input.name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// storageCodec returns the codec with which a kube-apiserver encodes core objects for etcd.
func storageCodec(mediaType string) (runtime.Codec, error) {
	version := schema.GroupVersion{Version: "v1"}
	codec, _, err := storage.NewStorageCodec(storage.StorageCodecConfig{
		StorageMediaType:  mediaType,
		StorageSerializer: legacyscheme.Codecs,
		StorageVersion:    version,
		MemoryVersion:     api.SchemeGroupVersion,
	})
	return codec, err
}

func encode(codec runtime.Codec, object *api.RangeAllocation) (string, error) {
	var out bytes.Buffer
	if err := codec.Encode(object, &out); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

type envelopeInput struct {
	name   string
	object *api.RangeAllocation
}

func envelopeInputs() []envelopeInput {
	object := func(meta metav1.ObjectMeta, spec string, data []byte) *api.RangeAllocation {
		return &api.RangeAllocation{ObjectMeta: meta, Range: spec, Data: data}
	}
	bare := metav1.ObjectMeta{}
	// bits returns the snapshot with these offsets set.
	bits := func(offsets ...int) []byte {
		set := new(big.Int)
		for _, offset := range offsets {
			set.SetBit(set, offset, 1)
		}
		return set.Bytes()
	}
	// alternate sets every third offset below size: more bytes than a length of one byte can represent.
	alternate := func(size int) []byte {
		var offsets []int
		for offset := 0; offset < size; offset += 3 {
			offsets = append(offsets, offset)
		}
		return bits(offsets...)
	}
	created := metav1.NewTime(time.Date(2026, time.February, 3, 4, 5, 6, 0, time.UTC))
	deleted := metav1.NewTime(time.Date(2026, time.February, 3, 4, 6, 7, 0, time.UTC))
	grace := int64(30)
	yes := true
	full := metav1.ObjectMeta{
		Name:                       "serviceips",
		GenerateName:               "range-",
		Namespace:                  "kube-system",
		SelfLink:                   "/api/v1/rangeallocations/serviceips",
		UID:                        types.UID("5a0c1f0e-6a53-4f0b-9a62-6a3f7c1de001"),
		ResourceVersion:            "4711",
		Generation:                 3,
		CreationTimestamp:          created,
		DeletionTimestamp:          &deleted,
		DeletionGracePeriodSeconds: &grace,
		Labels:                     map[string]string{"b": "2", "a": "1", "app.kubernetes.io/name": "ranges", "empty": ""},
		Annotations: map[string]string{
			"html":    `<a href="x">&amp;</a>`,
			"unicode": "Größe Ω 范围 🚀 \u2028\u2029",
			"control": "tab\there\nnew\rline\x01\x7f\\\"",
		},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "kube-system", UID: "u-1", Controller: &yes, BlockOwnerDeletion: &yes}},
		Finalizers:      []string{"example.com/keep", "example.com/hold"},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager:    "kube-apiserver",
			Operation:  metav1.ManagedFieldsOperationUpdate,
			APIVersion: "v1",
			Time:       &created,
			FieldsType: "FieldsV1",
			FieldsV1:   &metav1.FieldsV1{Raw: []byte(`{"f:data":{},"f:range":{}}`)},
		}},
	}
	only := func(change func(*metav1.ObjectMeta)) metav1.ObjectMeta {
		var meta metav1.ObjectMeta
		change(&meta)
		return meta
	}
	inputs := []envelopeInput{
		{"empty object, data absent", object(bare, "", nil)},
		{"empty object, data empty", object(bare, "", []byte{})},
		{"data absent", object(bare, "10.96.0.0/12", nil)},
		{"data empty", object(bare, "10.96.0.0/12", []byte{})},
		{"data without range", object(bare, "", bits(0))},
		{"lowest bit", object(bare, "10.96.0.0/12", bits(0))},
		{"bit 7", object(bare, "10.96.0.0/12", bits(7))},
		{"bit 8", object(bare, "10.96.0.0/12", bits(8))},
		{"first and tenth address", object(bare, "10.96.0.0/12", bits(0, 9))},
		{"highest bit of a /24", object(bare, "10.0.0.0/24", bits(253))},
		{"every bit of a /28", object(bare, "10.0.0.0/28", bits(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13))},
		{"leading zero byte", object(bare, "10.96.0.0/12", []byte{0, 0, 1})},
		{"only zero bytes", object(bare, "10.96.0.0/12", []byte{0, 0})},
		{"data of 127 bytes", object(bare, "10.96.0.0/12", alternate(1015))},
		{"data of 128 bytes", object(bare, "10.96.0.0/12", alternate(1022))},
		{"data of 2,048 bytes", object(bare, "10.96.0.0/16", alternate(16384))},
		{"ports", object(bare, "30000-32767", bits(0, 1, 80, 2767))},
		{"ports, empty", object(bare, "30000-32767", []byte{})},
		{"IPv6", object(bare, "fd00:10:96::/112", bits(0, 9, 4000))},
		{"IPv6, last tracked", object(bare, "2001:db8::/64", bits(0, 8190))},
		{"UID blocks", object(bare, "1000000000-1999999999/10000", bits(0, 1, 2))},
		{"range with markup", object(bare, "<10&20>", bits(1))},
		{"full metadata", object(full, "10.96.0.0/12", bits(0, 9, 100))},
		{"full metadata, data absent", object(full, "", nil)},
		{"name", object(only(func(m *metav1.ObjectMeta) { m.Name = "servicenodeports" }), "30000-32767", bits(5))},
		{"resourceVersion", object(only(func(m *metav1.ObjectMeta) { m.ResourceVersion = "12345" }), "10.96.0.0/12", bits(5))},
		{"creationTimestamp", object(only(func(m *metav1.ObjectMeta) { m.CreationTimestamp = created }), "10.96.0.0/12", bits(5))},
		{"creationTimestamp before 1970", object(only(func(m *metav1.ObjectMeta) {
			m.CreationTimestamp = metav1.NewTime(time.Date(1969, time.December, 31, 23, 59, 59, 0, time.UTC))
		}), "10.96.0.0/12", bits(5))},
		{"labels", object(only(func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"z": "26", "a": "1", "m": ""} }), "10.96.0.0/12", bits(5))},
		{"annotations with markup", object(only(func(m *metav1.ObjectMeta) { m.Annotations = full.Annotations }), "10.96.0.0/12", bits(5))},
		{"annotations of several lines", object(only(func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{
				"lines":   "range: 1-2\ndata: AQ==\n",
				"long":    strings.Repeat("range: 1-2 'data' \"AQ==\" # ", 20),
				"unicode": full.Annotations["unicode"],
				"control": "tab\there\nnew\rline\x01\\\"\u0085\ufeff",
			}
		}), "10.96.0.0/12", bits(5))},
		{"managedFields", object(only(func(m *metav1.ObjectMeta) { m.ManagedFields = full.ManagedFields }), "10.96.0.0/12", bits(5))},
		{"generation negative", object(only(func(m *metav1.ObjectMeta) { m.Generation = -1 }), "10.96.0.0/12", bits(5))},
	}
	// Texts of base64 that would not be strings in YAML without quotes, and some that would be.
	for _, text := range []string{
		"true", "True", "TRUE", "null", "Null", "NULL", "tRUe", "nullnull", "1234", "0189", "0017", "+123", "1e10", "1E+5", "1e+1e+10",
		"0x12", "0XAB", "0xyz", "0b11", "0b12", "0o17", "0o18", "12345678", "123456789012", "12345678901234567890", "99999999999999999999",
		"0xffffffffffffffffff", "+9223372036854775807", "1234E567", "+Inf", "+inf", "infinity", "1/2+", "+/+/", "/w==",
	} {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			panic(err)
		}
		inputs = append(inputs, envelopeInput{"data " + text, object(bare, "30000-32767", data)})
	}
	return inputs
}
