use super::*;

fn uris(all: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    all.into_iter().map(|number| format!("a://{number:03}")).collect()
}

/// Runs the selection against a server that refuses some requests; returns the final selection and the
/// number of requests.
fn settled(
    selection: &mut Selection,
    desired: &BTreeSet<String>,
    refuses: impl Fn(&BTreeSet<String>) -> bool,
) -> (Option<BTreeSet<String>>, usize) {
    let mut listening = None;
    for requests in 0..100 {
        let requested = selection.next(desired);
        if listening.as_ref() == Some(&requested) || (requested.is_empty() && !selection.may_be_empty) {
            return (Some(requested), requests);
        }
        if !refuses(&requested) {
            selection.accepted(&requested);
            listening = Some(requested);
        } else if !selection.refused(&requested) {
            return (None, requests + 1);
        }
    }
    panic!("no end: {selection:?}");
}

#[test]
fn accepted_resources_need_one_request() {
    let (mut selection, desired) = (Selection::new(true), uris(0..100));
    assert_eq!(settled(&mut selection, &desired, |_| false), (Some(desired), 1));
}

#[test]
fn refused_resource_does_not_affect_others() {
    for may_be_empty in [true, false] {
        let mut selection = Selection::new(may_be_empty);
        let bad = uris([42]);
        let refuses = |requested: &BTreeSet<String>| !requested.is_disjoint(&bad);
        let (accepted_uris, requests) = settled(&mut selection, &uris(0..100), refuses);
        assert_eq!(accepted_uris, Some(&uris(0..100) - &bad));
        assert!(requests <= 12, "{requests}");
        // The refused URI is not requested again as long as it is watched.
        selection.turn(&uris(0..101));
        assert_eq!(settled(&mut selection, &uris(0..101), refuses), (Some(&uris(0..101) - &bad), 1));
        selection.turn(&uris(0..3));
        assert_eq!(settled(&mut selection, &uris(0..3), refuses), (Some(uris(0..3)), 1));
    }
}

#[test]
fn long_list_is_reduced_to_what_the_server_accepts() {
    let mut selection = Selection::new(true);
    let (accepted_uris, _) = settled(&mut selection, &uris(0..100), |requested| requested.len() > 70);
    assert!(accepted_uris.is_some_and(|accepted_uris| (60..=70).contains(&accepted_uris.len())));
}

#[test]
fn server_that_refuses_everything_is_given_up() {
    assert_eq!(settled(&mut Selection::new(true), &uris(0..100), |_| true), (None, 2));
    let (accepted_uris, requests) = settled(&mut Selection::new(false), &uris(0..100), |_| true);
    assert_eq!(accepted_uris, Some(uris([])));
    assert!(requests <= MAX_REFUSALS, "{requests}");
}

#[test]
fn accepted_resource_may_be_refused_later() {
    let (mut selection, desired) = (Selection::new(true), uris(0..10));
    settled(&mut selection, &desired, |_| false);
    let bad = uris([3]);
    assert!(selection.refused(&desired));
    let (accepted_uris, _) = settled(&mut selection, &desired, |requested| !requested.is_disjoint(&bad));
    assert_eq!(accepted_uris, Some(&desired - &bad));
}
