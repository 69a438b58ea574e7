//! All tools there are, as a snapshot that changes as a whole.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use moka::sync::Cache;
use plexus_auth::Principal;
use plexus_auth::profiles::{LiveProfiles, Profiles, ProfilesChange};
use plexus_proto::TokenId;
use tokio::sync::watch;

use crate::listing::listed;
use crate::profile_view::Told;
use crate::{Placement, Tool, Visible};

/// Views kept, one per token.
const VIEWS: u64 = 10_000;

/// By canonical name.
type Tools = BTreeMap<String, Arc<Tool>>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) version: u64,
    pub(crate) tools: Tools,
    /// What servers offer beside tools; no list of tools shows them.
    pub(crate) facilities: Tools,
    pub(crate) profiles: Arc<Profiles>,
}

pub struct Registry {
    catalog: ArcSwap<Catalog>,
    /// One change at a time; readers never wait for it.
    changing: Mutex<()>,
    versions: watch::Sender<u64>,
    views: Cache<TokenId, Arc<Visible>>,
    profiles: ArcSwapOption<LiveProfiles>,
    told: Told,
    /// Canonical names of tools that are held back, and their servers. No list and no search looks here.
    held: ArcSwap<BTreeMap<String, String>>,
    /// User-defined tools that cannot be called, and why. The same goes for them.
    absent: ArcSwap<BTreeMap<String, String>>,
}

impl Registry {
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        let registry = Self {
            catalog: ArcSwap::default(),
            changing: Mutex::new(()),
            versions: watch::Sender::new(0),
            views: Cache::new(VIEWS),
            profiles: ArcSwapOption::empty(),
            told: Told::default(),
            held: ArcSwap::default(),
            absent: ArcSwap::default(),
        };
        registry.change(|catalog| {
            catalog.extend(tools.into_iter().map(|tool| (tool.spec().name.to_string(), Arc::new(tool))));
        });
        registry
    }

    /// Adds tools; one of the same name is replaced.
    pub fn add(&self, tools: impl IntoIterator<Item = Tool>) {
        self.change(|catalog| {
            catalog.extend(tools.into_iter().map(|tool| (tool.spec().name.to_string(), Arc::new(tool))));
        });
    }

    /// Takes tools away; names that are not there are passed over.
    pub fn remove(&self, names: &[&str]) {
        self.change(|catalog| catalog.retain(|name, _| !names.contains(&name.as_str())));
    }

    /// Makes these the tools of a server, in place of those it had. Lists of callers stay as they are
    /// when nothing has changed.
    pub fn set_upstream(&self, server: &str, tools: impl IntoIterator<Item = Tool>) {
        self.change(|catalog| {
            catalog.retain(|_, tool| !is_of(tool, server));
            catalog.extend(tools.into_iter().map(|tool| (tool.spec().name.to_string(), Arc::new(tool))));
        });
    }

    /// Makes these the tools of the servers that run on machines, in place of those there were. One that has the name of another
    /// tool is left out: it never takes the place of the hub's own. Says which were.
    pub fn set_hosted(&self, tools: Vec<Tool>) -> Vec<String> {
        let mut left_out = Vec::new();
        self.change(|catalog| {
            catalog.retain(|_, tool| !is_hosted(tool));
            for tool in tools {
                let name = tool.spec().name.to_string();
                match catalog.entry(name) {
                    Entry::Occupied(taken) => left_out.push(taken.key().clone()),
                    Entry::Vacant(free) => {
                        free.insert(Arc::new(tool));
                    }
                }
            }
        });
        left_out
    }

    /// Makes these the [facilities](crate::Facility) of a server, in place of those it had.
    pub fn set_facilities(&self, server: &str, facilities: impl IntoIterator<Item = Tool>) {
        self.edit(|catalog| {
            let there = &mut catalog.facilities;
            there.retain(|_, tool| !is_of(tool, server));
            there.extend(facilities.into_iter().map(|tool| (tool.spec().name.to_string(), Arc::new(tool))));
        });
    }

    /// Makes these the canonical names of the tools of a server, which goes by its own name here, that nobody has approved yet, in place of those it had.
    pub fn set_held(&self, server: &str, names: impl IntoIterator<Item = String>) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = BTreeMap::clone(&self.held.load());
        held.retain(|_, of| of != server);
        held.extend(names.into_iter().map(|name| (name, server.to_owned())));
        self.held.store(Arc::new(held));
    }

    /// The server of a tool that is held back: for those who can do something about it.
    pub(crate) fn holds_back(&self, name: &str) -> Option<String> {
        self.held.load().get(name).cloned()
    }

    /// Makes these the user-defined tools that there are no tools of, each with why not, in place of those there were.
    pub(crate) fn set_absent(&self, absent: BTreeMap<String, String>) {
        self.absent.store(Arc::new(absent));
    }

    /// Why a user-defined tool cannot be called: for those who can do something about it.
    pub(crate) fn why_absent(&self, name: &str) -> Option<String> {
        self.absent.load().get(name).cloned()
    }

    /// Makes these the user-defined tools, in place of those there were. One that has the name of another tool is left
    /// out.
    pub fn set_custom(&self, tools: Vec<Tool>) {
        self.change(|catalog| {
            catalog.retain(|_, tool| tool.spec().placement != Placement::Custom);
            for tool in tools {
                catalog.entry(tool.spec().name.to_string()).or_insert_with(|| Arc::new(tool));
            }
        });
    }

    /// Whether a tool that is not user-defined has this name.
    #[must_use]
    pub fn is_taken(&self, name: &str) -> bool {
        self.catalog.load().tools.get(name).is_some_and(|tool| tool.spec().placement != Placement::Custom)
    }

    /// Names by which the tools of a server are listed now, to someone who sees all tools.
    #[must_use]
    pub fn listed_of(&self, server: &str) -> Vec<String> {
        let all = listed(self.catalog.load().tools.values().cloned().collect());
        all.into_iter().filter(|(_, tool)| is_of(tool, server)).map(|(name, _)| name).collect()
    }

    /// The same of every server that has any, by its slug.
    #[must_use]
    pub fn listed_by_server(&self) -> BTreeMap<String, Vec<String>> {
        let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, tool) in listed(self.catalog.load().tools.values().cloned().collect()) {
            if let Some(upstream) = tool.spec().upstream().filter(|upstream| upstream.node.is_none()) {
                servers.entry(upstream.server.clone()).or_default().push(name);
            }
        }
        servers
    }

    fn change(&self, edit: impl FnOnce(&mut Tools)) {
        self.edit(|catalog| edit(&mut catalog.tools));
    }

    fn edit(&self, edit: impl FnOnce(&mut Catalog)) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.catalog.load();
        let mut catalog = Catalog::clone(&current);
        edit(&mut catalog);
        if same(&catalog.tools, &current.tools) && same(&catalog.facilities, &current.facilities) {
            return;
        }
        self.put(catalog);
    }

    fn put(&self, catalog: Catalog) {
        let version = catalog.version + 1;
        self.catalog.store(Arc::new(Catalog { version, ..catalog }));
        self.versions.send_replace(version);
    }

    /// Makes these the profiles that tokens are narrowed by. Without any, a token of a profile sees nothing.
    pub fn set_profiles(&self, profiles: Arc<Profiles>) {
        self.change_profiles(|| profiles);
    }

    /// Narrows tokens by these profiles from now on; see [`Self::reload_profiles`].
    pub fn follow_profiles(&self, profiles: LiveProfiles) {
        self.profiles.store(Some(Arc::new(profiles.clone())));
        self.change_profiles(|| profiles.load());
    }

    /// Reads the files of the profiles again. Lists of callers change where their profile has.
    pub fn reload_profiles(&self) -> ProfilesChange {
        let Some(profiles) = self.profiles.load_full() else { return ProfilesChange::default() };
        let change = profiles.reload();
        if !change.is_empty() {
            self.change_profiles(|| profiles.load());
        }
        change
    }

    /// What `profiles` gives is asked for in turn, so that the newest is the one that stays.
    fn change_profiles(&self, profiles: impl FnOnce() -> Arc<Profiles>) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.told.forget();
        self.put(Catalog { profiles: profiles(), ..Catalog::clone(&self.catalog.load()) });
    }

    /// Follows the version; a new one means that lists may have changed.
    #[must_use]
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.versions.subscribe()
    }

    /// What this principal may see now.
    #[must_use]
    pub fn visible_to(&self, principal: &Principal) -> Arc<Visible> {
        let catalog = self.catalog.load();
        if let Some(view) = self.views.get(&principal.token_id())
            && view.version() == catalog.version
        {
            return view;
        }
        let view = Arc::new(Visible::new(&catalog, principal, &self.told));
        self.views.insert(principal.token_id(), view.clone());
        view
    }

    /// All tools there are, whoever may see them.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Tool>> {
        self.catalog.load().tools.values().cloned().collect()
    }

    /// What a token of this profile would see of what the principal does; made anew each time.
    #[must_use]
    pub fn visible_through(&self, principal: &Principal, profile: &str) -> Visible {
        Visible::of_profile(&self.catalog.load(), principal, profile, &self.told)
    }

    /// Number of tools that lists show to who may use all of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.catalog.load().tools.values().filter(|tool| !tool.spec().handling.unlisted).count()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether a tool is of this server behind the hub itself.
fn is_of(tool: &Tool, server: &str) -> bool {
    tool.spec().upstream().is_some_and(|upstream| upstream.node.is_none() && upstream.server == server)
}

/// Whether a tool is of a server that runs on a machine.
fn is_hosted(tool: &Tool) -> bool {
    tool.spec().upstream().is_some_and(|upstream| upstream.node.is_some())
}

/// Whether a change has changed nothing, so that nobody need look at it.
fn same(tools: &Tools, others: &Tools) -> bool {
    let alike = |(one, other): (&Arc<Tool>, &Arc<Tool>)| Arc::ptr_eq(one, other) || one.same_as(other);
    tools.len() == others.len()
        && tools.keys().eq(others.keys())
        && tools.values().zip(others.values()).all(alike)
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let catalog = self.catalog.load();
        f.debug_struct("Registry")
            .field("version", &catalog.version)
            .field("tools", &catalog.tools.keys())
            .finish()
    }
}
