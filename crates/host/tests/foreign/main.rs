//! Guests on the path of real requests: those that nobody here wrote, those of `guests/filters` and
//! `guests/services`, and what a filter tries on its server.
//!
//! Each case has a server of its own, `palisade-host`, servers behind it, and clients before it. What
//! `tools/real-filters` could not get is reported as ignored.

mod backend;
mod chain;
mod density;
mod filters;
mod fixture;
mod heads;
mod hostile;
mod idle;
mod lengths;
mod neighbours;
mod own;
#[path = "../shared/raw_http.rs"]
mod raw_http;
mod readers;
#[path = "../shared/served.rs"]
mod served;
mod services;
mod soak;
mod suites;
mod tenants;

use libtest_mimic::{Arguments, Trial};
use palisade_suite::NO_WASM_GUESTS;
use palisade_suite::guests::{Component, Filter, FilterAttack};

/// A case, and the files of `tools/real-filters` that it needs.
type Foreign = (&'static str, fn(), &'static [&'static str]);

macro_rules! foreign {
    ($module:ident: $($name:ident [$($file:literal),*],)*) => {
        &[$((concat!(stringify!($module), "/", stringify!($name)), $module::$name as fn(), &[$($file),*])),*]
    };
}

const FILTERS: &[Foreign] = foreign![filters:
    http_headers_answers_and_traces ["http_headers"],
    http_headers_of_abi_0_1_does_the_same ["http_headers_0.1"],
    http_config_adds_what_it_was_configured_with ["http_config"],
    http_body_redacts_what_is_secret ["http_body"],
    http_auth_random_asks_before_it_lets_pass ["http_auth_random"],
    http_auth_random_refuses_odd_bytes ["http_auth_random"],
    http_auth_random_without_a_grant_reaches_nobody ["http_auth_random"],
    hello_world_greets_and_filters_nothing ["hello_world"],
    assemblyscript_adds_its_header ["assemblyscript"],
    transformer_transforms_requests ["transformer"],
    transformer_transforms_answers ["transformer"],
    transformer_maps_bodies_to_headers ["transformer"],
    data_masking_denies_and_masks ["ai-data-masking"],
    statistics_count_tokens ["ai-statistics"],
    external_authentication_is_asked ["gpustack-ext-auth"],
    addresses_are_looked_at ["gpustack-ip-acl"],
    rate_limit_is_told_what_is_missing ["gpustack-rate-limit"],
    filters_of_three_languages_make_a_chain ["http_config", "assemblyscript", "transformer"],
];

const SERVICES: &[Foreign] = foreign![services:
    rust_of_0_2_2_answers ["http_proxy_0.2.2"],
    rust_of_0_2_12_answers ["http_proxy_0.2.12"],
    rust_of_0_3_0_answers ["http_proxy_0.3.0"],
    rust_by_other_crates_answers ["http_proxy_compat_0.3.0"],
    javascript_reads_and_answers ["javascript"],
    a_filter_stands_before_a_service ["http_proxy_0.2.12", "http_config"],
];

fn main() {
    let arguments = Arguments::from_args();
    let foreign = FILTERS.iter().chain(SERVICES).map(foreign_trial);
    let filters = Filter::ALL.iter().map(|guest| {
        (
            format!("own/filter-{}", guest.name()),
            own::filter_test(*guest),
        )
    });
    let components = Component::ALL.iter();
    let components = components.map(|guest| {
        (
            format!("own/component-{}", guest.name()),
            own::component_test(*guest),
        )
    });
    let more = [
        (
            "hostile/open-failure".to_owned(),
            hostile::open_failure_lets_requests_pass as fn(),
        ),
        (
            "hostile/neighbours-go-on".to_owned(),
            hostile::neighbours_go_on_during_attacks as fn(),
        ),
        (
            "hostile/slow-callbacks-have-a-share".to_owned(),
            hostile::slow_callbacks_have_a_share as fn(),
        ),
        (
            "hostile/memory-of-clients-comes-back".to_owned(),
            hostile::memory_of_clients_comes_back as fn(),
        ),
        (
            "hostile/slow-timers-have-a-share".to_owned(),
            hostile::slow_timers_have_a_share as fn(),
        ),
    ];
    let soak = [
        (
            "soak/no-request-fails".to_owned(),
            soak::no_request_fails_whatever_happens as fn(),
        ),
        (
            "soak/tenants".to_owned(),
            soak::crowd::tenants_do_not_harm_each_other as fn(),
        ),
        (
            "soak/growth-is-told-from-chance".to_owned(),
            soak::growth_is_told_from_chance as fn(),
        ),
        (
            "soak/full-disk".to_owned(),
            soak::a_full_disk_holds_nobody_up as fn(),
        ),
    ];
    let idle = [(
        "own/idle-server-wakes-nobody".to_owned(),
        idle::a_server_that_nobody_asks_wakes_nobody as fn(),
    )];
    let between = chain::CASES.iter();
    let between = between.map(|(name, test)| (format!("chain/{name}"), *test));
    let many = density::CASES.iter();
    let many = many.map(|(name, test)| (format!("density/{name}"), *test));
    let lengths = lengths::CASES.iter();
    let lengths = lengths.map(|(name, test)| (format!("lengths/{name}"), *test));
    let readers = readers::CASES.iter();
    let readers = readers.map(|(name, test)| (format!("readers/{name}"), *test));
    let tenants = tenants::CASES.iter();
    let tenants = tenants.map(|(name, test)| (format!("tenants/{name}"), *test));
    let neighbours = neighbours::CASES.iter();
    let neighbours = neighbours.map(|(name, test)| (format!("tenants/{name}"), *test));
    let instances = [
        ("filter", own::a_fresh_filter_has_so_many_instances as fn()),
        ("component", own::a_component_has_so_many_instances),
    ]
    .map(|(kind, test)| (format!("own/instances-of-a-{kind}"), test));
    let heads = [
        (
            "paths",
            heads::a_path_that_a_filter_sets_has_one_form as fn(),
        ),
        ("starts", heads::a_second_filter_that_does_not_start),
        ("waits", heads::a_request_for_a_file_waits_for_an_instance),
        (
            "instances",
            heads::requests_that_are_there_already_take_one_place_in_turn,
        ),
    ]
    .map(|(what, test)| (format!("own/{what}-of-heads"), test));
    let blame = [(
        "own/blame-for-a-stall".to_owned(),
        own::a_client_that_stalls_is_to_blame_for_its_answer as fn(),
    )];
    let own = filters
        .chain(components)
        .chain(between)
        .chain(many)
        .chain(lengths)
        .chain(readers)
        .chain(tenants)
        .chain(neighbours)
        .chain(more)
        .chain(soak)
        .chain(idle)
        .chain(instances)
        .chain(blame)
        .chain(heads)
        .map(|(name, test)| own_trial(name, test));
    let by_name = own_trial(
        "hostile/names-lead-to-no-own-service".into(),
        hostile::a_name_leads_to_no_own_service,
    );
    let why_not = hostile::own_name()
        .is_none()
        .then_some("needs a name of 127.0.0.1's in /etc/hosts");
    let by_name = ignore(by_name, NO_WASM_GUESTS.or(why_not));
    let attacks = FilterAttack::ALL.iter().map(|attack| {
        own_trial(format!("hostile/{}", attack.name()), move || {
            hostile::attack_ends_well(*attack);
        })
    });
    let suites = suites::CASES.iter();
    let suites = suites.map(|(name, test, is_of_h2spec)| {
        let trial = Trial::test(format!("suites/{name}"), run(*test));
        ignore(trial, suites::why_not(*is_of_h2spec))
    });
    let trials = foreign
        .chain(own)
        .chain([by_name])
        .chain(attacks)
        .chain(suites)
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn foreign_trial((name, test, files): &Foreign) -> Trial {
    let is_there = files.iter().all(|file| fixture::fetched(file).is_file());
    let why_not = (!is_there).then_some("needs what tools/real-filters fetches");
    ignore(Trial::test(*name, run(*test)), why_not)
}

fn own_trial(name: String, test: impl FnOnce() + Send + 'static) -> Trial {
    ignore(Trial::test(name, run(test)), NO_WASM_GUESTS)
}

fn run(
    test: impl FnOnce() + Send + 'static,
) -> impl FnOnce() -> Result<(), libtest_mimic::Failed> + Send + 'static {
    move || {
        test();
        Ok(())
    }
}

fn ignore(trial: Trial, why_not: Option<&str>) -> Trial {
    match why_not {
        None => trial,
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
    }
}
