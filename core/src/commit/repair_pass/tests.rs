use std::num::NonZeroU8;

use super::super::testing::*;
use super::*;
use crate::bitmap::Bitmap;
use crate::ports::PortRange;
use crate::service::Service;

fn passes() -> LeakTracker {
    LeakTracker::new(NonZeroU8::new(3).expect("not zero"), GRACE)
}

/// A range after that of [`range`].
fn other_range() -> PortRange {
    PortRange::new(port(SIZE), port(SIZE + 9)).expect("a range")
}

fn view() -> View {
    View { revision: 30, used: bitmap([1]), initialised: true }
}

#[test]
fn a_range_is_begun_once_and_read_once_after_that() {
    let (mut passes, mut committer, any) = (passes(), committer(range()), range().into());
    let mut pass = passes.start();
    assert_eq!(pass.read(&mut passes, &committer, &view(), GRACE), Err(PassError::NotBegun(any)));
    assert_eq!(pass.begin(&passes, &mut committer), Ok(()));
    assert!(committer.history.is_kept());
    assert_eq!(pass.begin(&passes, &mut committer), Err(PassError::BegunTwice(any)));
    assert_eq!(pass.clone().audit(&passes, &mut Audit::new()).err(), Some(PassError::NotRead(any)));
    assert_eq!(pass.read(&mut passes, &committer, &view(), GRACE), Ok(true), "no object is known");
    assert_eq!(pass.read(&mut passes, &committer, &view(), GRACE), Err(PassError::ReadTwice(any)));
}

#[test]
fn a_fence_comes_after_the_read() {
    let (mut passes, mut committer, any) = (passes(), committer(range()), range().into());
    let mut pass = passes.start();
    assert_eq!(pass.fenced(&passes, &committer, 31, LOOK), Err(PassError::NotBegun(any)));
    pass.begin(&passes, &mut committer).expect("its first range");
    assert_eq!(pass.fenced(&passes, &committer, 31, LOOK), Err(PassError::NotRead(any)));
    pass.read(&mut passes, &committer, &view(), GRACE).expect("it is begun");
    let early = PassError::EarlyFence { range: any, fence: 29, read: 30 };
    assert_eq!(pass.fenced(&passes, &committer, 29, LOOK), Err(early));
    assert_eq!(pass.fenced(&passes, &committer, 31, LOOK), Ok(()));
    let early = PassError::EarlyFence { range: any, fence: 30, read: 31 };
    assert_eq!(pass.fenced(&passes, &committer, 30, LOOK), Err(early));
    passes.start();
    assert_eq!(pass.fenced(&passes, &committer, 31, LOOK), Err(PassError::GivenUp));
}

/// A single pass, so that every leak is due at once, with a fence at this revision and a grace of zero.
fn cleared(fence: Option<u64>, listed: ServiceList) -> Vec<u32> {
    let mut passes = LeakTracker::new(NonZeroU8::MIN, GRACE);
    let mut committer = committer(range());
    committer.config.grace = Duration::ZERO;
    let mut pass = passes.start();
    pass.begin(&passes, &mut committer).expect("its first range");
    assert_eq!(pass.read(&mut passes, &committer, &view(), GRACE), Ok(true), "every leak is due");
    if let Some(fence) = fence {
        pass.fenced(&passes, &committer, fence, LOOK).expect("after the read");
    }
    let mut audit = Audit::new();
    let (found, _) = pass.audit(&passes, &mut audit).expect("read").finish(&mut passes, audit).expect("its own audit");
    let diff = found.diff(&mut passes, &mut committer, listed).expect("its own range");
    assert_eq!(diff.look, fence.map(|_| LOOK));
    diff.clear.iter().collect()
}

#[test]
fn a_leak_is_cleaned_only_if_services_were_listed_at_the_fence() {
    for list in [ServiceList::At, ServiceList::Guarding] {
        assert!(cleared(None, list(40)).is_empty(), "no fence");
        assert!(cleared(Some(41), list(40)).is_empty(), "a list from before the fence");
        assert!(
            cleared(Some(39), list(40)).is_empty(),
            "another history may have the look of the fence, and not the list"
        );
        assert_eq!(cleared(Some(40), list(40)), [1]);
    }
    assert_eq!(cleared(None, ServiceList::Elsewhere), [1], "revisions that cannot be compared");
}

/// A pass that has read a range with offset 1 in use.
fn read(passes: &mut LeakTracker, committer: &mut Ports) -> RepairPass {
    let mut pass = passes.start();
    pass.begin(passes, committer).expect("its first range");
    pass.read(passes, committer, &view(), GRACE).expect("it is begun");
    pass
}

#[test]
fn only_an_audit_that_the_pass_has_begun_ends_it() {
    let (mut passes, mut committer) = (passes(), committer(range()));
    let pass = read(&mut passes, &mut committer);
    let (mut observed, mut filled, mut audit) = (Audit::new(), Audit::new(), Audit::new());
    observed.observe(&Service::default());
    filled.add_bitmap(other_range().into(), Stored::default()).expect("its first range");
    let listing = pass.clone().audit(&passes, &mut audit).expect("the range is read");
    assert!(audit.is_of_pass());
    for used in [&mut observed, &mut filled, &mut audit] {
        assert_eq!(pass.clone().audit(&passes, used).err(), Some(PassError::AuditInUse));
    }
    assert_eq!(listing.clone().finish(&mut passes, Audit::new()).err(), Some(PassError::OtherAudit));
    assert!(listing.finish(&mut passes, audit).is_ok());
}

#[test]
fn a_step_of_another_leak_trackers_pass_is_refused() {
    let (mut ours, mut others) = (passes(), passes());
    let (mut our_committer, mut other_committer) = (committer(range()), committer(range()));
    let mut pass = ours.start();
    others.start();
    assert_eq!(pass.begin(&others, &mut our_committer), Err(PassError::GivenUp));
    assert!(!our_committer.history.is_kept());

    let (mut our_audit, mut other_audit) = (Audit::new(), Audit::new());
    let listing = read(&mut ours, &mut our_committer).audit(&ours, &mut our_audit).expect("the range is read");
    let _ = read(&mut others, &mut other_committer).audit(&others, &mut other_audit).expect("the range is read");
    assert_eq!(listing.clone().finish(&mut ours, other_audit).err(), Some(PassError::OtherAudit));
    assert!(listing.finish(&mut ours, our_audit).is_ok());
}

#[test]
fn a_pass_has_one_range_of_a_kind() {
    let (mut passes, mut first, mut second) = (passes(), committer(range()), committer(other_range()));
    let mut pass = read(&mut passes, &mut first);
    pass.begin(&passes, &mut second).expect("another range");
    pass.read(&mut passes, &second, &View { used: Bitmap::new(10), ..view() }, GRACE).expect("it is begun");
    let refused = pass.audit(&passes, &mut Audit::new()).err();
    assert!(matches!(refused, Some(PassError::Range(AddRangeError::SameKind { .. }))), "{refused:?}");
}

#[test]
fn each_committer_gets_the_diff_of_its_range() {
    let (mut passes, mut ours, mut others) = (passes(), committer(range()), committer(other_range()));
    let mut audit = Audit::new();
    let listing = read(&mut passes, &mut ours).audit(&passes, &mut audit).expect("the range is read");
    for claimed in [1, 2, 2] {
        audit.observe(&Service { health_check_node_port: port(claimed).into(), ..Service::default() });
    }
    let (found, report) = listing.finish(&mut passes, audit).expect("its own audit");
    assert_eq!(report.bitmaps().count(), 1);
    let diff = found.diff(&mut passes, &mut ours, ServiceList::At(40)).expect("its own range");
    assert_eq!((diff.set.clone(), diff.clear.clone()), (bitmap([2]), bitmap([])));
    assert_eq!((&diff.duplicates[..], diff.listed), (&[2][..], ServiceList::At(40)));
    assert_eq!(found.diff(&mut passes, &mut ours, ServiceList::At(40)), Ok(diff), "after a repair that has failed");
    let missing = found.diff(&mut passes, &mut others, ServiceList::At(40));
    assert_eq!(missing, Err(PassError::NotAudited(other_range().into())));
}

#[test]
fn a_later_pass_ends_an_earlier_one_at_any_step() {
    let (mut passes, mut committer) = (passes(), committer(range()));
    let mut begun = passes.start();
    begun.begin(&passes, &mut committer).expect("its first range");
    passes.start();
    assert_eq!(begun.read(&mut passes, &committer, &view(), GRACE), Err(PassError::GivenUp));
    let mut other = self::committer(other_range());
    assert_eq!(begun.begin(&passes, &mut other), Err(PassError::GivenUp));
    assert!(!other.history.is_kept());

    let pass = read(&mut passes, &mut committer);
    passes.start();
    assert_eq!(pass.audit(&passes, &mut Audit::new()).err(), Some(PassError::GivenUp));

    let mut audit = Audit::new();
    let listing = read(&mut passes, &mut committer).audit(&passes, &mut audit).expect("the range is read");
    passes.start();
    assert_eq!(listing.finish(&mut passes, audit).err(), Some(PassError::GivenUp));

    let mut audit = Audit::new();
    let listing = read(&mut passes, &mut committer).audit(&passes, &mut audit).expect("the range is read");
    let (found, _) = listing.finish(&mut passes, audit).expect("its own audit");
    passes.start();
    assert_eq!(found.diff(&mut passes, &mut committer, ServiceList::Elsewhere), Err(PassError::GivenUp));
}
