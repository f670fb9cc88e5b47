use super::*;
#[test]
fn print() {
    use crate::plan::cluster::*;
    let c: Cluster = "a100-80-nvlink".parse().unwrap();
    let mut g = Gpt::new("23b".parse().unwrap());
    g.micro_batch = 4; g.tensor_parallel = 8;
    for sp in [false,true] {
    g.sequence_parallel = sp;
    let p = g.profile(&c.device).unwrap();
    let k=&p.kinds[0];
    let (mut cf, mut cb) = (Nanos(0),Nanos(0));
    for s in &k.segments { let f=c.collectives_time(&s.after_forward,8); let b=c.collectives_time(&s.after_backward,8); cf=cf.saturating_add(f); cb=cb.saturating_add(b);
      println!("{:10} f {} bi {} bw {:?} tape {} coll {f} {b}", s.name, s.forward, s.backward_input, s.backward_weight.map(|x|x.to_string()), s.tape); }
    println!("sp {sp} fwd {} + {cf} bwd {} + {cb}", k.forward(), k.backward());
    println!("att rec {}", k.segments[1].recompute);
    }
    println!("{:?}", p0(&g, &c.device));
}
fn p0(g:&Gpt,d:&crate::plan::cluster::Device)->String{ let p=g.profile(d).unwrap(); p.to_json().unwrap().lines().take(60).collect::<Vec<_>>().join("\n") }
use crate::units::Nanos;
