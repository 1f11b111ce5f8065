//! Where a cluster records its ClusterIPs.

use super::Presence;

/// Where a cluster records its ClusterIPs. Kubernetes 1.33 records them in both places; later releases, and those with
/// the feature gate DisableAllocatorDualWrite, in objects; older ones, and 1.33 without the feature gate
/// MultiCIDRServiceAllocator, in bitmaps (KEP-1880).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterIpRecords {
    /// Neither objects nor a bitmap are stored: no kube-apiserver has started.
    Unknown,
    /// In bitmaps.
    Bitmaps,
    /// In IPAddress objects. There is no bitmap, or the source does not show bitmaps.
    Objects,
    /// In IPAddress objects, and there are bitmaps beside them. Whether servers still write these,
    /// [`compare_bitmap`](super::Audit::compare_bitmap) finds out.
    Both,
}

impl ClusterIpRecords {
    /// Decides by what is stored: the number of ServiceCIDR and IPAddress objects, those among them that cannot be
    /// read, and the bitmap of the primary range, or if there is none of the secondary one.
    ///
    /// ```
    /// use rangekeeper::audit::{ClusterIpRecords, Presence};
    ///
    /// assert_eq!(ClusterIpRecords::of(1, Presence::Initialised), ClusterIpRecords::Both);
    /// assert!(!ClusterIpRecords::of(0, Presence::Unseen).has_objects());
    /// ```
    pub fn of(objects: u64, bitmap: Presence) -> Self {
        match (objects, bitmap) {
            (0, Presence::Missing) => Self::Unknown,
            // A server that uses objects creates a ServiceCIDR when it starts.
            (0, _) => Self::Bitmaps,
            (_, Presence::Unseen | Presence::Missing) => Self::Objects,
            (_, Presence::Uninitialised | Presence::Unreadable | Presence::Initialised) => Self::Both,
        }
    }

    /// Whether ClusterIPs are recorded in IPAddress objects.
    pub fn has_objects(self) -> bool {
        matches!(self, Self::Objects | Self::Both)
    }
}

/// What a store has of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreContent {
    /// All of it, or what a kube-apiserver keeps beside its Services in another store.
    Cluster,
    /// The Services, stored ranges, and nothing else: the other store of a kube-apiserver with
    /// `--etcd-servers-overrides=/services#...`.
    Services,
}

impl StoreContent {
    /// Decides by the numbers of stored Services, of objects as of [`ClusterIpRecords::of`], and of others, such as the
    /// Namespace `kube-system`, which each cluster has.
    ///
    /// ```
    /// use rangekeeper::audit::StoreContent;
    ///
    /// assert_eq!(StoreContent::of(7, 0, 0), StoreContent::Services);
    /// ```
    pub fn of(services: u64, objects: u64, others: u64) -> Self {
        if services > 0 && objects == 0 && others == 0 { Self::Services } else { Self::Cluster }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_other_object_shows_the_whole_cluster() {
        for (services, objects, others, expected) in
            [(1, 0, 0, true), (0, 0, 0, false), (1, 1, 0, false), (1, 0, 1, false), (0, 1, 1, false)]
        {
            assert_eq!(StoreContent::of(services, objects, others) == StoreContent::Services, expected);
        }
    }

    #[test]
    fn objects_decide_and_a_bitmap_may_be_beside_them() {
        use ClusterIpRecords::{Bitmaps, Both, Objects, Unknown};
        let bitmaps = [Presence::Unseen, Presence::Missing, Presence::Uninitialised, Presence::Initialised];
        for (objects, expected) in [(0, [Bitmaps, Unknown, Bitmaps, Bitmaps]), (1, [Objects, Objects, Both, Both])] {
            assert_eq!(bitmaps.map(|bitmap| ClusterIpRecords::of(objects, bitmap)), expected);
        }
        assert_eq!([Unknown, Bitmaps, Objects, Both].map(ClusterIpRecords::has_objects), [false, false, true, true]);
    }
}
