//! The page: facts, pictures and text in one file that needs no other.

use std::fmt::Write;

/// A page under way.
#[derive(Debug)]
pub(super) struct Page {
    title: String,
    body: String,
    /// Seconds after which a browser reads the file again.
    refresh: Option<u32>,
}

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b232e;--soft:#4d5866;--paper:#fff;--line:#dfe4ea;--card:#f6f8fa}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9f0;--soft:#a9b4c2;--paper:#13171d;--line:#2b323c;--card:#1b2129}}
*{box-sizing:border-box}
body{margin:0 auto;padding:24px 20px 60px;max-width:960px;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}
h1{font-size:24px;line-height:1.2;margin:0 0 4px}h2{font-size:18px;margin:36px 0 8px}
p{margin:0 0 12px;color:var(--soft);max-width:72ch}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(240px,1fr));gap:10px;margin:20px 0}
.fact{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px}
.fact b{display:block;font-size:20px;font-weight:600;font-variant-numeric:tabular-nums}.fact span{color:var(--soft);font-size:13px}
table{border-collapse:collapse;width:100%}td{border-top:1px solid var(--line);padding:6px 12px 6px 0;vertical-align:top}td:first-child{color:var(--soft);white-space:nowrap;width:1%}
figure{margin:14px 0;border:1px solid var(--line);border-radius:8px;overflow-x:auto}figure svg{display:block;max-width:100%;height:auto}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px;white-space:pre-wrap;overflow-wrap:anywhere}
";

impl Page {
    pub(super) fn new(title: &str, refresh: Option<u32>) -> Self {
        Self {
            title: title.to_owned(),
            body: format!("<h1>{}</h1>\n", escaped(title)),
            refresh,
        }
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.put(format_args!("<h2>{}</h2>\n", escaped(text)));
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.put(format_args!("<p>{}</p>\n", escaped(text)));
    }

    /// Numbers to see first, each with what it is.
    pub(super) fn facts(&mut self, facts: &[(String, String)]) {
        self.body.push_str("<div class=\"facts\">\n");
        for (value, meaning) in facts {
            let (value, meaning) = (escaped(value), escaped(meaning));
            self.put(format_args!(
                "<div class=\"fact\"><b>{value}</b><span>{meaning}</span></div>\n"
            ));
        }
        self.body.push_str("</div>\n");
    }

    pub(super) fn table(&mut self, rows: &[(&str, String)]) {
        self.body.push_str("<table>\n");
        for (name, value) in rows {
            let (name, value) = (escaped(name), escaped(value));
            self.put(format_args!("<tr><td>{name}</td><td>{value}</td></tr>\n"));
        }
        self.body.push_str("</table>\n");
    }

    /// A picture, as it is.
    pub(super) fn picture(&mut self, svg: &str) {
        self.put(format_args!("<figure>\n{svg}</figure>\n"));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.put(format_args!("<pre>{}</pre>\n", escaped(text)));
    }

    pub(super) fn finish(self) -> String {
        let refresh = self.refresh.map_or(String::new(), |seconds| {
            format!("<meta http-equiv=\"refresh\" content=\"{seconds}\">\n")
        });
        let (title, body) = (escaped(&self.title), self.body);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{refresh}\
             <title>{title}</title>\n<style>{STYLE}</style>\n{body}</html>\n"
        )
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = self.body.write_fmt(text);
    }
}

/// Text as HTML or XML.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
