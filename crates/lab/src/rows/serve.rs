//! Rows of `palisade serve`: filters and services on the path of requests, beside nginx and `wasmtime serve`. Kernel
//! plugins (2004), user extensions inside a web server of the kernel, asked the first of these questions.

mod asking;
mod density;
mod load;
mod rates;
mod served;
mod sites;
mod swap;
mod turns;

pub(super) use asking::Asking;
pub(super) use density::{DOCUMENTS, Idle, Jitter, Neighbours, POPULAR, What};
pub(super) use rates::Rates;
pub(super) use sites::Site;
pub(super) use swap::Swap;

use super::{BARE, Tools};
use crate::{figure::Target, program::Program, workloads::Workloads};
use served::{Beside, Document, Isolations, Judgement, Lane, Picture, Served, Way};
use sites::{COMPONENT_FILE, Isolation, Layout, Module, Who, quoted};
use std::ffi::OsString;

const PLAIN: &str = "palisade serve";
const NULL_KEPT: &str = "palisade serve, null filter";
const NULL_FRESH: &str = "palisade serve, null filter, fresh";
const HEADER_KEPT: &str = "palisade serve, header filter";
const HEADER_FRESH: &str = "palisade serve, header filter, fresh";
const NGINX: &str = "nginx";
const NGINX_NJS: &str = "nginx, header filter in njs";
const NGINX_LUA: &str = "nginx, header filter in Lua";
const ENGINE: &str = "floor, no filter";
const ENGINE_NULL: &str = "floor, null filter";
const ENGINE_HEADER: &str = "floor, header filter";

const FILTER_LANES: [Lane; 11] = [
    lane((ENGINE, "the engine alone"), Who::Engine, "/plain"),
    lane((ENGINE_NULL, "its null filter"), Who::Engine, "/null"),
    lane((ENGINE_HEADER, "its header filter"), Who::Engine, "/header"),
    lane((PLAIN, "no filter"), Who::Serve, "/plain"),
    lane((NULL_KEPT, "null filter"), Who::Serve, "/null-kept"),
    lane(
        (NULL_FRESH, "null filter, fresh"),
        Who::Serve,
        "/null-fresh",
    ),
    lane((HEADER_KEPT, "header filter"), Who::Serve, "/header-kept"),
    lane(
        (HEADER_FRESH, "header filter, fresh"),
        Who::Serve,
        "/header-fresh",
    ),
    lane((NGINX, "nginx"), Who::Nginx(None), ""),
    lane((NGINX_NJS, "nginx, njs"), Who::Nginx(Some(Module::Njs)), ""),
    lane((NGINX_LUA, "nginx, Lua"), Who::Nginx(Some(Module::Lua)), ""),
];

const SMALL: [Document; 1] = [document("a file of 1 KB", "/1")];

const fn document(title: &'static str, path: &'static str) -> Document {
    Document {
        title,
        path,
        posted: None,
    }
}

const fn lane(
    (subject, title): (&'static str, &'static str),
    who: Who,
    path: &'static str,
) -> Lane {
    Lane {
        subject,
        title,
        who,
        path,
    }
}

const fn judged(subject: &'static str, against: &'static str, target: Target) -> Judgement {
    Judgement {
        subject,
        against,
        target: Some(target),
        floor: None,
    }
}

/// Beside what the engine alone takes of the same.
const fn judged_beside(
    judgement: Judgement,
    subject: &'static str,
    against: &'static str,
) -> Judgement {
    Judgement {
        floor: Some(Beside { subject, against }),
        ..judgement
    }
}

const fn told(subject: &'static str, against: &'static str) -> Judgement {
    Judgement {
        subject,
        against,
        target: None,
        floor: None,
    }
}

const fn isolations(title: &'static str, kept: &'static str, fresh: &'static str) -> Isolations {
    Isolations { title, kept, fresh }
}

const NULL_BY_TIME: Judgement = judged_beside(
    judged(NULL_KEPT, PLAIN, Target::AtMostOverOther(0.35)),
    ENGINE_NULL,
    ENGINE,
);
const HEADER_BY_TIME: Judgement = judged_beside(
    judged(HEADER_KEPT, PLAIN, Target::AtMostOverOther(0.8)),
    ENGINE_HEADER,
    ENGINE,
);
const NULL_BY_RATE: Judgement = judged_beside(
    judged(NULL_KEPT, PLAIN, Target::AtLeastTimesOther(0.95)),
    ENGINE_NULL,
    ENGINE,
);

pub(super) static REPLY_LATENCY: Served = Served {
    title: "A file of 1 KB through filters",
    way: Way::InTurn,
    lanes: &FILTER_LANES,
    documents: &SMALL,
    judgements: &[
        NULL_BY_TIME,
        told(ENGINE_NULL, ENGINE),
        told(ENGINE_HEADER, ENGINE),
        told(NULL_FRESH, PLAIN),
        HEADER_BY_TIME,
        told(HEADER_KEPT, NGINX_NJS),
        told(HEADER_KEPT, NGINX_LUA),
        told(HEADER_FRESH, PLAIN),
        told(NGINX_NJS, NGINX),
        told(NGINX_LUA, NGINX),
    ],
    isolations: &[],
    lay_out: lay_out_filters,
    tables: filter_tables,
    family: Who::family,
};

pub(super) static FILTERS: Served = Served {
    way: Way::Busy,
    judgements: &[
        NULL_BY_RATE,
        told(ENGINE_NULL, ENGINE),
        told(ENGINE_HEADER, ENGINE),
        told(NULL_FRESH, PLAIN),
        judged(HEADER_KEPT, NGINX_NJS, Target::AtLeastTimesOther(1.0)),
        judged(HEADER_KEPT, NGINX_LUA, Target::AtLeastTimesOther(1.0)),
        told(HEADER_KEPT, PLAIN),
        told(HEADER_FRESH, PLAIN),
        told(NGINX_NJS, NGINX),
        told(NGINX_LUA, NGINX),
    ],
    isolations: &[
        isolations("null filter", NULL_KEPT, NULL_FRESH),
        isolations("header filter", HEADER_KEPT, HEADER_FRESH),
    ],
    ..REPLY_LATENCY
};

pub(super) static FILES: Served = Served {
    title: "Files",
    lanes: &[
        lane((PLAIN, "palisade"), Who::Serve, ""),
        lane((NGINX, "nginx"), Who::Nginx(None), ""),
    ],
    documents: &[
        document("a file of 1 KB", "/1"),
        document("a file of 100 KB", "/100"),
    ],
    judgements: &[judged(PLAIN, NGINX, Target::AtLeastTimesOther(0.9))],
    isolations: &[],
    ..FILTERS
};

const FRESH_COMPONENT: &str = "palisade serve, fresh instance";
const KEPT_COMPONENT: &str = "palisade serve, kept instance";
const WASMTIME: &str = "wasmtime serve";
const WASMTIME_KEPT: &str = "wasmtime serve, kept instance";

pub(super) static COMPONENTS: Served = Served {
    title: "A component that greets",
    lanes: &[
        lane((FRESH_COMPONENT, "fresh instance"), Who::Serve, ""),
        lane((KEPT_COMPONENT, "kept instance"), Who::Serve, "/kept"),
        lane(
            (WASMTIME, "wasmtime serve"),
            Who::Wasmtime(Isolation::Fresh),
            "",
        ),
        lane(
            (WASMTIME_KEPT, "wasmtime, kept"),
            Who::Wasmtime(Isolation::Kept),
            "",
        ),
    ],
    documents: &[document("a greeting", "/1")],
    judgements: &[
        judged(FRESH_COMPONENT, WASMTIME, Target::AtLeastTimesOther(2.0)),
        told(KEPT_COMPONENT, WASMTIME_KEPT),
        told(WASMTIME_KEPT, WASMTIME),
    ],
    isolations: &[isolations("component", KEPT_COMPONENT, FRESH_COMPONENT)],
    lay_out: lay_out_component,
    tables: component_tables,
    ..FILTERS
};

const DIRECT: &str = "palisade serve, direct";
const PROXIED: &str = "palisade serve, in front";
const NGINX_IN_FRONT: &str = "nginx, in front";
const PROGRAM: &str = "no wall";

pub(super) static PROGRAMS: Served = Served {
    title: "A program that answers with 1 KB",
    lanes: &[
        lane((PROGRAM, "no wall"), Who::Program, ""),
        lane((DIRECT, "walled, own socket"), Who::ServeDirect, ""),
        lane((PROXIED, "walled, behind palisade"), Who::Serve, ""),
        lane(
            (NGINX_IN_FRONT, "no wall, behind nginx"),
            Who::NginxProxy,
            "",
        ),
    ],
    documents: &[document("an answer of 1 KB", "/1")],
    judgements: &[
        judged(DIRECT, PROGRAM, Target::AtLeastTimesOther(0.95)),
        told(PROXIED, PROGRAM),
        told(PROXIED, NGINX_IN_FRONT),
        told(NGINX_IN_FRONT, PROGRAM),
    ],
    isolations: &[],
    lay_out: lay_out_program,
    tables: program_tables,
    ..FILTERS
};

const POSTED_DIRECT: &str = "palisade serve, program, own socket";
const POSTED_PROXIED: &str = "palisade serve, program";
const POSTED_FRESH: &str = "palisade serve, component, fresh";
const POSTED_KEPT: &str = "palisade serve, component, kept";

pub(super) static PICTURES: Served = Served {
    title: "Pictures that become grey",
    way: Way::InTurn,
    lanes: &[
        lane((BARE, "program, no wall"), Who::Pictures, ""),
        lane((POSTED_DIRECT, "program, own socket"), Who::ServeDirect, ""),
        lane((POSTED_PROXIED, "program, behind palisade"), Who::Serve, ""),
        lane((POSTED_FRESH, "component, fresh"), Who::Serve, "/fresh"),
        lane((POSTED_KEPT, "component, kept"), Who::Serve, "/kept"),
        lane(
            (WASMTIME, "wasmtime serve"),
            Who::Wasmtime(Isolation::Fresh),
            "",
        ),
    ],
    documents: &[
        posted("9 KB", "picture-9", (64, 48), 2),
        posted("99 KB", "picture-99", (220, 150), 4),
        posted("270 KB", "picture-270", (300, 300), 10),
        posted("3.3 MB", "picture-3300", (1100, 1000), 50),
    ],
    judgements: &[
        told(POSTED_DIRECT, BARE),
        told(POSTED_PROXIED, BARE),
        told(POSTED_FRESH, BARE),
        told(POSTED_KEPT, BARE),
        told(WASMTIME, BARE),
    ],
    isolations: &[],
    lay_out: lay_out_pictures,
    tables: picture_tables,
    family: |_| "all",
};

const fn posted(
    title: &'static str,
    name: &'static str,
    (width, height): (usize, usize),
    one_in: usize,
) -> Document {
    Document {
        title,
        path: "/mono",
        posted: Some(Picture {
            name,
            width,
            height,
            one_in,
        }),
    }
}

fn lay_out_filters(_: &Tools, workloads: &Workloads) -> anyhow::Result<()> {
    workloads.add_files(0)?;
    workloads.add_text("1", 1 << 10)?;
    workloads.add_text("100", 100 << 10)?;
    workloads.add_filters()
}

fn lay_out_program(_: &Tools, workloads: &Workloads) -> anyhow::Result<()> {
    workloads.add_files(0)?;
    workloads.add_replies().map(|_| ())
}

fn lay_out_pictures(tools: &Tools, workloads: &Workloads) -> anyhow::Result<()> {
    workloads.add_files(0)?;
    workloads.add_server()?;
    for picture in PICTURES.documents.iter().filter_map(|one| one.posted) {
        workloads.add_picture(picture.name, picture.width, picture.height)?;
    }
    add_component(tools, workloads, "mono")
}

fn lay_out_component(tools: &Tools, workloads: &Workloads) -> anyhow::Result<()> {
    add_component(tools, workloads, "hello")
}

fn add_component(tools: &Tools, workloads: &Workloads, name: &str) -> anyhow::Result<()> {
    let [module, interfaces] = workloads.add_component(name)?;
    let into = workloads.folder().join(COMPONENT_FILE);
    let program = tools.palisade.companion("palisade-lab-calls")?;
    let words = [
        program.as_os_str(),
        "component".as_ref(),
        module.as_os_str(),
        interfaces.as_os_str(),
        into.as_os_str(),
    ];
    Program::new(&words.map(OsString::from))?.run()?;
    Ok(())
}

fn component_tables(layout: &Layout<'_>) -> anyhow::Result<String> {
    let component = quoted(&layout.component())?;
    Ok(format!(
        "[services.hello]\ncomponent = {component}\nisolation = \"fresh\"\n\n\
         [services.kept]\ncomponent = {component}\nisolation = \"kept\"\n\n\
         [[route]]\npath = \"/kept\"\nservice = \"kept\"\n\n\
         [[route]]\npath = \"/\"\nservice = \"hello\"\n"
    ))
}

/// The component, and the program at the root.
fn picture_tables(layout: &Layout<'_>) -> anyhow::Result<String> {
    let mut text = program_table(layout, "server")?;
    let component = quoted(&layout.component())?;
    for isolation in ["fresh", "kept"] {
        text += &format!(
            "[services.{isolation}]\ncomponent = {component}\nisolation = \"{isolation}\"\n\n\
             [[route]]\npath = \"/{isolation}\"\nservice = \"{isolation}\"\n\n"
        );
    }
    Ok(text
        + "[[route]]\npath = \"/1\"\nservice = \"fresh\"\n\n\
           [[route]]\npath = \"/\"\nservice = \"program\"\n")
}

/// Files, at the root, and behind each filter and none: routes that differ in nothing else, for that a route
/// takes its path away has its price too.
fn filter_tables(layout: &Layout<'_>) -> anyhow::Result<String> {
    let files = quoted(&layout.workloads.files_folder())?;
    let mut filters = String::new();
    let mut routes = route_to_files("plain", "");
    for filter in ["null", "header"] {
        let module = quoted(&layout.filter(filter))?;
        for isolation in ["kept", "fresh"] {
            let name = format!("{filter}-{isolation}");
            filters +=
                &format!("[filters.{name}]\nmodule = {module}\nisolation = \"{isolation}\"\n\n");
            routes += &route_to_files(&name, &format!("\"{name}\""));
        }
    }
    let other = "[[route]]\npath = \"/\"\nservice = \"files\"\n";
    Ok(format!(
        "[services.files]\nfiles = {files}\n\n{filters}{routes}{other}"
    ))
}

fn route_to_files(name: &str, filters: &str) -> String {
    format!(
        "[[route]]\npath = \"/{name}\"\nstrip = true\nfilters = [{filters}]\nservice = \"files\"\n\n"
    )
}

fn program_tables(layout: &Layout<'_>) -> anyhow::Result<String> {
    let program = program_table(layout, "replies")?;
    Ok(program + "[[route]]\npath = \"/\"\nservice = \"program\"\n")
}

/// The service `program`, which may take its time to start on a machine that has much else to do.
fn program_table(layout: &Layout<'_>, name: &str) -> anyhow::Result<String> {
    let program = quoted(&layout.workloads.folder().join(name))?;
    let folder = quoted(layout.workloads.folder())?;
    Ok(format!(
        "[services.program]\nprogram = [{program}]\nstart-time = \"60s\"\n\
         policy = {{ grants = {{ read = [{folder}] }} }}\n\n"
    ))
}
