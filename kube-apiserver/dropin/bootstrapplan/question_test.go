package bootstrapplan

import (
	"testing"

	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// TestCheckAddress compares the refused addresses with those that the API server refuses in endpoints.
func TestCheckAddress(t *testing.T) {
	addresses := []string{
		"192.0.2.1", "0.0.0.0", "127.0.0.1", "127.255.255.255", "169.254.0.1", "224.0.0.1", "224.0.1.1", "255.255.255.255",
		"2001:db8::1", "::", "::1", "::2", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff05::1", "ff12::1", "<nil>",
	}
	for _, address := range addresses {
		refused := len(validation.ValidateEndpointIP(address, nil)) > 0
		if err := CheckAddress(address); (err != nil) != refused {
			t.Errorf("CheckAddress(%q) = %v; the API server refuses it: %t", address, err, refused)
		}
	}
}
