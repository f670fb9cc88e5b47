//! The links of a run on this machine: within the process, or as slow as is asked for.

use lynx_burn::LinkSpeed;
use lynx_burn::plan::cluster::{Cluster, Contention, Link};

/// What `--collective-link` and `--link` say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Between the ranks of a stage.
    pub(crate) collective: Option<LinkSpeed>,
    /// Between stages.
    pub(crate) pipeline: Option<LinkSpeed>,
}

impl Links {
    /// The machines as one process that runs all stages of so many ranks: what no speed is given
    /// for is as fast as two devices of a node are joined.
    pub(crate) fn join(self, cluster: Cluster, ranks: usize) -> Cluster {
        let own = (cluster.intra_node, cluster.contention, cluster.name.clone());
        let (inside, contention, name) = own;
        let given = |speed: Option<LinkSpeed>| speed.map_or(inside, Link::from);
        let joined = cluster.with_links(ranks, given(self.collective), given(self.pipeline));
        // Threads that copy are busy themselves, unless what they wait for is emulated.
        let whole = joined.contention;
        let collective = self.collective.map_or(contention, |_| whole);
        let pipeline = self.pipeline.map_or(contention, |_| whole);
        Cluster {
            name,
            contention: Contention {
                send: pipeline.send,
                recv: pipeline.recv,
                bubble: whole.bubble,
                ..collective
            },
            ..joined
        }
    }
}

#[cfg(test)]
mod tests {
    use lynx_burn::plan::cluster::Window;
    use lynx_burn::units::{Bytes, Nanos};

    use super::*;

    #[test]
    fn what_no_speed_is_given_for_passes_within_the_process() {
        let cluster: Cluster = "cpu-2-core".parse().expect("a preset");
        let inside = cluster.intra_node;
        let slow: LinkSpeed = "1MB/s,1ms".parse().expect("a speed");
        let links = |collective, pipeline| Links {
            collective,
            pipeline,
        };
        let plain = links(None, None).join(cluster.clone(), 2);
        assert_eq!(plain.contention, cluster.contention);
        assert_eq!(plain.name, cluster.name);
        // No two stages, however far apart, talk over Ethernet.
        assert_eq!(plain.pipeline_link(0, 3, 2), &inside);
        let both = links(Some(slow), None).join(cluster.clone(), 2);
        assert_eq!(both.collective_link(2), &Link::from(slow));
        assert_eq!(both.pipeline_link(0, 1, 2), &inside);
        assert_eq!(both.contention.factor(Window::B1), 1.0);
        assert_eq!(both.contention.factor(Window::Recv), 0.9);
        let both = links(None, Some(slow)).join(cluster, 1);
        let time = both.transfer_time(Bytes(1000), 0, 1, 1);
        assert_eq!(time, Nanos(2_000_000));
    }
}
