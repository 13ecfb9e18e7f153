//! The page: files in the binary, all but one the same for every program.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::routing::get;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Asked for again each time: another version of the daemon has other files.
const NO_CACHE: &str = "no-cache";
/// Has its version in its path.
const FOR_EVER: &str = "max-age=31536000, immutable";

/// Where the program's own part is.
const VIEW_PATH: &str = "/view.js";

/// Path, type, caching, content.
type File = (&'static str, &'static str, &'static str, &'static str);

const FILES: [File; 13] = [
    ("/", HTML, NO_CACHE, include_str!("../page/index.html")),
    ("/page.css", CSS, NO_CACHE, include_str!("../page/page.css")),
    ("/icon.svg", SVG, NO_CACHE, include_str!("../page/icon.svg")),
    ("/main.js", SCRIPT, NO_CACHE, include_str!("../page/main.js")),
    ("/render.js", SCRIPT, NO_CACHE, include_str!("../page/render.js")),
    ("/charts.js", SCRIPT, NO_CACHE, include_str!("../page/charts.js")),
    ("/bounds.js", SCRIPT, NO_CACHE, include_str!("../page/bounds.js")),
    ("/format.js", SCRIPT, NO_CACHE, include_str!("../page/format.js")),
    ("/power.js", SCRIPT, NO_CACHE, include_str!("../page/power.js")),
    ("/shadow.js", SCRIPT, NO_CACHE, include_str!("../page/shadow.js")),
    (
        "/uplot-1.6.32/uPlot.iife.min.js",
        SCRIPT,
        FOR_EVER,
        include_str!("../../../python/wattio/report/vendor/uplot/uPlot.iife.min.js"),
    ),
    (
        "/uplot-1.6.32/uPlot.min.css",
        CSS,
        FOR_EVER,
        include_str!("../../../python/wattio/report/vendor/uplot/uPlot.min.css"),
    ),
    (
        "/uplot-1.6.32/LICENSE",
        "text/plain; charset=utf-8",
        FOR_EVER,
        include_str!("../../../python/wattio/report/vendor/uplot/LICENSE"),
    ),
];

/// One route a file; `view` is the program's own.
pub(super) fn router(view: &'static str) -> Router {
    let view = (VIEW_PATH, SCRIPT, NO_CACHE, view);
    FILES.into_iter().chain([view]).fold(Router::new(), |router, (path, kind, cache, content)| {
        let answer = ([(CONTENT_TYPE, kind), (CACHE_CONTROL, cache)], content);
        router.route(path, get(move || async move { answer }))
    })
}
