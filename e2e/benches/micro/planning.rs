//! Selections -> hits.

use std::hint::black_box;

use criterion::Criterion;
use e2e::corpus::shirts::PAIR_SELECTOR;
use fieldcache::query::work::at_once;
use fieldcache::query::{FieldTerm, Listing, QueryPlan, Selection, State, Work};
use fieldcache::selector::{LabelSelector, Operator};

use crate::samples::{self, STORED};

pub(crate) fn measure(criterion: &mut Criterion) {
    let shirts = samples::shirts();
    let plan = samples::shirt_plan(&shirts);
    let snapshot = samples::store(&shirts).snapshot();
    let term = |operator: Operator| {
        FieldTerm::new(plan.resolve("spec.color").expect("the corpus must have colours"), operator)
    };
    let labels = |text: &str| LabelSelector::parse(text).expect("a selector of the corpus must be readable");
    let of_field = |term: FieldTerm| Selection { fields: vec![term], ..Selection::default() };
    let blue = shirts.color(0);
    let cases = [
        ("field", of_field(term(Operator::equal_to(&blue)))),
        ("two labels", Selection { labels: labels(PAIR_SELECTOR), ..Selection::default() }),
        ("negative", of_field(term(Operator::not_equal_to(&blue)))),
        ("nothing", of_field(term(Operator::equal_to("no such colour")))),
        (
            "field and namespace",
            Selection { namespace: Some("corpus-0".to_owned()), ..of_field(term(Operator::equal_to(&blue))) },
        ),
    ];
    let mut group = criterion.benchmark_group(format!("plan over {STORED} shirts"));
    for (name, selection) in &cases {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| {
                at_once(async {
                    let mut work = Work::default();
                    QueryPlan::new(black_box(selection), &snapshot, &mut work).await.hits(&mut work).await
                })
            });
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group(format!("list keys of {STORED} shirts"));
    for (name, selection) in &cases {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| Listing::new(State::current(snapshot.clone()), black_box(selection), None).count());
        });
    }
    group.finish();
}
