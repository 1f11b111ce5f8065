//go:build !(cgo && (rangekeeper_native || rangekeeper_dynamic))

package rk

// A committer is in an instance of its own, so that it never waits for a repair pass. These are the functions of the C
// ABI that take both: what one has said is handed to the other (ffi/src/exchange.rs).

// said returns what ask writes.
func said(ask func(buffer []byte, length *uint) Result) ([]byte, Result) {
	buffer := make([]byte, 1<<10)
	var length uint
	result := ask(buffer, &length)
	if result == ResultBufferTooSmall {
		buffer = make([]byte, length)
		result = ask(buffer, &length)
	}
	return buffer[:min(length, uint(len(buffer)))], result
}

// RepairPassBegin is rk_repair_pass_begin.
func RepairPassBegin(pass *RepairPass, committer *Committer, theError *Error) Result {
	var of Range
	result := ExchangeRange(committer, &of, theError)
	if result == ResultOK {
		result = ExchangeBegin(pass, &of, theError)
	}
	if result == ResultOK {
		result = ExchangeKeep(committer, theError)
	}
	return result
}

// RepairPassRead is rk_repair_pass_read.
func RepairPassRead(pass *RepairPass, committer *Committer, revision uint64, data []byte, now uint64, needsFence *bool, theError *Error) Result {
	var of Range
	var since, followed []byte
	result := ExchangeRange(committer, &of, theError)
	if result == ResultOK {
		since, result = said(func(buffer []byte, length *uint) Result {
			return ExchangeSince(pass, &of, revision, buffer, length, theError)
		})
	}
	if result == ResultOK {
		followed, result = said(func(buffer []byte, length *uint) Result {
			return ExchangeFollowed(committer, since, buffer, length, theError)
		})
	}
	if result == ResultOK {
		result = ExchangeRead(pass, &of, followed, revision, data, now, needsFence, theError)
	}
	return result
}

// RepairPassFenced is rk_repair_pass_fenced.
func RepairPassFenced(pass *RepairPass, committer *Committer, fence, look uint64, theError *Error) Result {
	var of Range
	result := ExchangeRange(committer, &of, theError)
	if result == ResultOK {
		result = ExchangeFenced(pass, &of, fence, look, theError)
	}
	return result
}

// RepairPassCheck is rk_repair_pass_check.
func RepairPassCheck(pass *RepairPass, committer *Committer, theError *Error) Result {
	var of Range
	var sets bool
	var outside uint32
	result := ExchangeRange(committer, &of, theError)
	if result == ResultOK {
		result = ExchangeNeeds(pass, &of, &sets, &outside, theError)
	}
	if result == ResultOK {
		result = ExchangeCheck(committer, sets, outside, theError)
	}
	return result
}

// CommitterSubmitRepair is rk_committer_submit_repair.
func CommitterSubmitRepair(committer *Committer, pass *RepairPass, listed uint64, isGuarded bool, deadline uint64, ticket *uint64, theError *Error) Result {
	var of Range
	var due, handedOut, diff []byte
	result := ExchangeRange(committer, &of, theError)
	if result == ResultOK {
		due, result = said(func(buffer []byte, length *uint) Result {
			return ExchangeDue(pass, &of, buffer, length, theError)
		})
	}
	if result == ResultOK {
		handedOut, result = said(func(buffer []byte, length *uint) Result {
			return ExchangeHandedOut(committer, due, buffer, length, theError)
		})
	}
	if result == ResultOK {
		diff, result = said(func(buffer []byte, length *uint) Result {
			return ExchangeDiff(pass, &of, handedOut, listed, isGuarded, buffer, length, theError)
		})
	}
	if result == ResultOK {
		result = ExchangeSubmit(committer, diff, listed, isGuarded, deadline, ticket, theError)
	}
	return result
}
