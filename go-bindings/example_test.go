package rangekeeper_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/rangekeeper/rangekeeper/go-bindings"
)

func Example() {
	cidr, err := rangekeeper.ParseCIDR("10.96.0.0/29")
	if err != nil {
		log.Fatal(err)
	}
	allocator, err := rangekeeper.NewAllocator(cidr, rangekeeper.Contiguous, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer allocator.Close()

	for {
		addr, err := allocator.AllocateNext()
		if errors.Is(err, rangekeeper.ErrFull) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(addr)
	}
	snapshot, err := allocator.Snapshot(nil)
	fmt.Printf("%x %v\n", snapshot, err)
	// Output:
	// 10.96.0.1
	// 10.96.0.2
	// 10.96.0.3
	// 10.96.0.4
	// 10.96.0.5
	// 10.96.0.6
	// 3f <nil>
}

func ExampleAudit() {
	cidr, err := rangekeeper.ParseCIDR("10.0.0.0/24")
	if err != nil {
		log.Fatal(err)
	}
	pass, err := rangekeeper.NewAudit()
	if err != nil {
		log.Fatal(err)
	}
	defer pass.Close()
	// Offsets 0 and 2 are stored: 10.0.0.1 and 10.0.0.3.
	if _, err := pass.AddBitmap(cidr, rangekeeper.Stored{Range: "10.0.0.0/24", Data: []byte{0b101}}); err != nil {
		log.Fatal(err)
	}
	var services rangekeeper.Services
	services.Add("10.0.0.1", []string{"10.0.0.1"})
	services.Add("10.0.0.2", []string{"10.0.0.2"})
	if err := pass.Observe(&services); err != nil {
		log.Fatal(err)
	}
	outcome, err := pass.Finish()
	if err != nil {
		log.Fatal(err)
	}
	defer outcome.Close()

	findings, err := outcome.Findings()
	if err != nil {
		log.Fatal(err)
	}
	for _, finding := range findings {
		fmt.Println(finding.Reason, finding.Value, finding.Subject.Ordinal)
	}
	for value := range outcome.Values(0, rangekeeper.ValuesClear) {
		fmt.Println("clear", value)
	}
	// Output:
	// ClusterIPNotAllocated 10.0.0.2 1
	// clear 10.0.0.3
}
