//! Transactions: allocations at once, releases at the commit, all given back by a rollback.

use std::sync::Arc;

use rangekeeper_core::transaction::Transaction;

use crate::allocator::{AllocatorState, requests, rk_allocator};
use crate::error::{Failure, rk_error};
use crate::guard::{Array, Out, borrow, guard, guard_error, guard_or, reclaim, slice};
use crate::handle::Handle;
use crate::result::rk_result;
use crate::value::{Value, rk_value};

/// Several allocations and releases that come to pass together or not at all. May be used from several threads at
/// once, beside other transactions of the same allocator.
pub struct rk_transaction(Handle<TransactionState>);

struct TransactionState {
    transaction: Transaction,
    allocator: Arc<Handle<AllocatorState>>,
}

// Locks are taken in one order: the transaction's, then the allocator's.
impl rk_transaction {
    fn with<R, E: From<rk_result>>(
        &self,
        work: impl FnOnce(&mut Transaction, &mut AllocatorState) -> Result<R, E>,
    ) -> Result<R, E> {
        self.0.with(|own| own.allocator.with(|state| work(&mut own.transaction, state)))
    }

    fn finish(&self, work: impl FnOnce(Transaction, &mut AllocatorState)) -> Result<(), rk_result> {
        self.0.finish(|own| {
            own.allocator.with(|state| {
                work(own.transaction, state);
                Ok(())
            })
        })
    }

    fn roll_back(&self) -> Result<(), rk_result> {
        self.finish(|transaction, state| transaction.rollback(&mut state.allocator))
    }
}

/// Begins a transaction. It shares the allocator's state, and stays valid when the allocator's handle is freed.
///
/// The caller owns *transaction and frees it with rk_transaction_free. RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_transaction_new(
    allocator: *const rk_allocator,
    transaction: *mut *mut rk_transaction,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, out) = unsafe { (borrow(allocator)?, Out::new(transaction)?) };
        let state = TransactionState { transaction: Transaction::new(), allocator: allocator.share() };
        out.give(rk_transaction(Handle::new(state)));
        Ok(())
    })
}

/// Frees a transaction, and rolls it back if it was neither committed nor rolled back. NULL is fine. To free it twice,
/// or while another thread uses it, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_transaction_free(transaction: *mut rk_transaction) {
    guard_or((), || {
        // SAFETY: the caller's promise; see guard.
        if let Some(transaction) = unsafe { reclaim(transaction) } {
            // It fails if the transaction has ended, or the allocator is closed: nothing is left to be given back.
            let _ = transaction.roll_back();
        }
    })
}

/// Takes a value at once.
///
/// As rk_allocator_allocate; RK_RESULT_CLOSED also if the transaction has ended. After a failure the transaction may
/// go on. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_transaction_allocate(transaction: *const rk_transaction, value: rk_value) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let transaction = unsafe { borrow(transaction)? };
        let value = value.try_into()?;
        transaction.with(|transaction, state| Ok(transaction.allocate(&mut state.allocator, value)?))
    })
}

/// Takes a free value at once, chosen by the allocator's strategy.
///
/// As rk_allocator_allocate_next; RK_RESULT_CLOSED also if the transaction has ended. After a failure the transaction
/// may go on. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_transaction_allocate_next(
    transaction: *const rk_transaction,
    value: *mut rk_value,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (transaction, out) = unsafe { (borrow(transaction)?, Out::new(value)?) };
        let value = transaction.with(|transaction, state| {
            Ok::<_, rk_result>(transaction.allocate_next(&mut state.allocator, &mut state.generator)?)
        })?;
        out.write(value.get());
        Ok(())
    })
}

/// Serves all of n requests at once, or none; what the transaction did before stays as it is.
///
/// As rk_allocator_allocate_batch; RK_RESULT_CLOSED also if the transaction has ended. After a failure the transaction
/// may go on. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_transaction_allocate_batch(
    transaction: *const rk_transaction,
    requests: *const rk_value,
    n: usize,
    values: *mut rk_value,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, || {
            let (transaction, out) = (borrow(transaction)?, Array::new(values, n)?);
            let requests = self::requests(slice(requests, n)?)?;
            let values = transaction.with(|transaction, state| {
                let AllocatorState { allocator, generator } = state;
                transaction.allocate_batch(allocator, &requests, generator).map_err(Failure::from)
            })?;
            out.fill(values.into_iter().map(Value::get));
            Ok(())
        })
    }
}

/// Releases a value when the transaction is committed. A value that is free or not in range is no error.
///
/// RK_RESULT_INVALID_ARGUMENT if it is no value, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED if the transaction has ended
/// or the allocator is closed, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_transaction_release(transaction: *const rk_transaction, value: rk_value) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let transaction = unsafe { borrow(transaction)? };
        let value = value.try_into()?;
        transaction.with(|transaction, state| {
            transaction.release(&state.allocator, value);
            Ok(())
        })
    })
}

/// Keeps the allocations, carries out the releases, and ends the transaction.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED if the transaction had ended or the allocator is closed,
/// RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_transaction_commit(transaction: *const rk_transaction) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let transaction = unsafe { borrow(transaction)? };
        transaction.finish(|transaction, state| transaction.commit(&mut state.allocator))
    })
}

/// Gives back what the transaction allocated, forgets its releases, and ends it.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED if the transaction had ended or the allocator is closed,
/// RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_transaction_rollback(transaction: *const rk_transaction) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let transaction = unsafe { borrow(transaction)? };
        transaction.roll_back()
    })
}
