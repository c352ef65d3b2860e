//! What is done to a cluster under load.

use std::time::Duration;

use tokio::time::sleep;

use super::members::Signal;
use super::proxy::Line;
use super::replicas::TestCluster;
use crate::harness::until;
use crate::torture::choices::CrashChoices;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbance {
    /// The leader is killed, and started again later.
    KillLeader,
    /// The leader is stopped past its lease, and wakes.
    PauseLeader,
    /// The leader gets SIGTERM, as in an upgrade, and is started again.
    RestartLeader,
    KillFollower,
    PauseFollower,
    /// A follower's data folder is lost.
    WipeFollower,
    /// A member of etcd is killed, and started again later.
    KillMember,
    PauseMember,
    /// All members of etcd are killed, and come back.
    KillAllMembers,
    /// A replica loses its connections to etcd, or they say nothing any more.
    CutFromEtcd,
    /// The others cannot reach the leader.
    CutFromOthers,
    /// The leader's connections to etcd are slow.
    SlowLeader,
}

use Disturbance::*;

/// The kinds, with how many of each come in a row of 25: most of them change the leader.
const KINDS: [(Disturbance, usize); 12] = [
    (KillLeader, 8),
    (PauseLeader, 6),
    (RestartLeader, 1),
    (KillFollower, 1),
    (PauseFollower, 1),
    (WipeFollower, 1),
    (KillMember, 2),
    (PauseMember, 1),
    (KillAllMembers, 1),
    (CutFromEtcd, 1),
    (CutFromOthers, 1),
    (SlowLeader, 1),
];

impl Disturbance {
    /// As many disturbances, each kind once before any comes again.
    pub fn plan(count: usize, choices: &mut CrashChoices) -> Vec<Self> {
        let mut plan = KINDS.map(|(kind, _)| kind).to_vec();
        choices.shuffle(&mut plan);
        while plan.len() < count {
            let mut row: Vec<Self> = KINDS.iter().flat_map(|(kind, times)| vec![*kind; *times]).collect();
            choices.shuffle(&mut row);
            plan.extend(row);
        }
        plan.truncate(count);
        plan
    }

    /// Does it, and undoes it after a while.
    pub async fn play(self, cluster: &mut TestCluster, choices: &mut CrashChoices) {
        let leader = cluster.wait_for_leader().await;
        let follower = (leader + 1 + choices.below(2)) % 3;
        let member = choices.below(3);
        // Up to eight seconds: shorter and longer than a lease.
        let while_away = Duration::from_millis(300 + choices.below(7700) as u64);
        let line = if choices.one_in(2) { Line::Cut } else { Line::Silent };
        match self {
            KillLeader => restart_after(cluster, leader, while_away).await,
            KillFollower => restart_after(cluster, follower, while_away).await,
            RestartLeader => {
                cluster.replicas[leader].terminate();
                cluster.start_replica(leader);
            }
            WipeFollower => {
                // The clients use the token of the operator that is in the first one's data folder.
                let follower = if follower == 0 { 3 - leader } else { follower };
                cluster.replicas[follower].kill();
                cluster.replicas[follower].wipe();
                start_until_it_stays(cluster, follower).await;
            }
            PauseLeader => pause(cluster, leader, while_away).await,
            PauseFollower => pause(cluster, follower, while_away).await,
            KillMember | PauseMember => {
                let signal = if self == KillMember { Signal::Kill } else { Signal::Stop };
                cluster.members.send(member, signal);
                sleep(while_away).await;
                cluster.members.restore(member).await;
            }
            KillAllMembers => {
                for member in 0..3 {
                    cluster.members.send(member, Signal::Kill);
                }
                sleep(while_away).await;
                cluster.members.start_all().await;
            }
            CutFromEtcd => {
                let cut = if choices.one_in(2) { leader } else { follower };
                cluster.replicas[cut].set_line_to_etcd(line);
                sleep(while_away).await;
                cluster.replicas[cut].set_line_to_etcd(Line::Open);
            }
            CutFromOthers => {
                cluster.replicas[leader].set_line_from_others(line);
                sleep(while_away).await;
                cluster.replicas[leader].set_line_from_others(Line::Open);
            }
            SlowLeader => {
                cluster.replicas[leader].set_line_to_etcd(Line::Slow(Duration::from_millis(200)));
                sleep(while_away).await;
                cluster.replicas[leader].set_line_to_etcd(Line::Open);
            }
        }
        for index in 0..3 {
            // One that the journal has left behind ends, and copies another one when it is started.
            if !cluster.replicas[index].runs() {
                start_until_it_stays(cluster, index).await;
            }
        }
    }
}

async fn pause(cluster: &mut TestCluster, index: usize, while_away: Duration) {
    cluster.replicas[index].pause();
    sleep(while_away).await;
    cluster.replicas[index].resume();
}

async fn restart_after(cluster: &mut TestCluster, index: usize, while_away: Duration) {
    cluster.replicas[index].kill();
    sleep(while_away).await;
    start_until_it_stays(cluster, index).await;
}

/// Starts a replica as a service manager does: again when it ends for a reason that may pass.
async fn start_until_it_stays(cluster: &mut TestCluster, index: usize) {
    until(format!("the start of {}", cluster.replicas[index].name), async || {
        let started = cluster.try_start(index);
        started.map_err(|status| {
            let log = cluster.replicas[index].log();
            assert_eq!(status.code(), Some(75), "{log}");
            log
        })
    })
    .await;
}
