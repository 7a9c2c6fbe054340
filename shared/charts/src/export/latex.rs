use std::fmt::Write as _;

use super::data::{Cell, Mark};
use super::{Export, numeric_columns};

/// A table by `booktabs` and, where rows are points of lines or points, the figure by `pgfplots`.
pub(super) fn latex(export: &Export) -> String {
    let mut text = String::from(
        "% Needs \\usepackage{booktabs,pgfplots} and \\pgfplotsset{compat=1.18} in the preamble.\n",
    );
    if export.data.plot.mark != Mark::Bar {
        figure(&mut text, export);
    }
    table(&mut text, export);
    text
}

fn table(text: &mut String, export: &Export) {
    let table = &export.table;
    let columns: String = numeric_columns(table).into_iter().map(|is| if is { 'r' } else { 'l' }).collect();
    let _ = writeln!(text, "\\begin{{table}}\n  \\centering\n  {}", caption(export));
    let _ = writeln!(text, "  \\begin{{tabular}}{{{columns}}}\n    \\toprule");
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("    {} \\\\\n", cells.join(" & "))
    };
    text.push_str(&row(&table.head));
    text.push_str("    \\midrule\n");
    for cells in &table.rows {
        text.push_str(&row(cells));
    }
    text.push_str("    \\bottomrule\n  \\end{tabular}\n\\end{table}\n");
}

fn figure(text: &mut String, export: &Export) {
    let data = &export.data;
    let plot = data.plot;
    let axes = if plot.powers { "xmode=log, log basis x=2, ymode=log, " } else { "" };
    let only_marks = if plot.mark == Mark::Point { "only marks" } else { "no marks, thick" };
    let _ = writeln!(text, "\\begin{{figure}}\n  \\centering\n  \\begin{{tikzpicture}}");
    let _ = writeln!(
        text,
        "    \\begin{{axis}}[{axes}width=0.95\\linewidth, xlabel={{{}}}, ylabel={{{}}}, \
         legend style={{at={{(1.02,1)}}, anchor=north west, font=\\small}}, legend cell align=left]",
        escaped(data.title(plot.x)),
        escaped(data.title(plot.y)),
    );
    let (x, y) = (data.place(plot.x), data.place(plot.y));
    for (name, is_second, rows) in lines(export) {
        let dash = if is_second { ", dashed" } else { "" };
        let _ = write!(text, "      \\addplot+[{only_marks}{dash}] coordinates {{");
        for row in rows {
            let _ = write!(text, " ({},{})", row[x].plain(), row[y].plain());
        }
        let _ = writeln!(text, " }};\n      \\addlegendentry{{{}}}", escaped(&name));
    }
    let _ =
        writeln!(text, "    \\end{{axis}}\n  \\end{{tikzpicture}}\n  {}\n\\end{{figure}}\n", caption(export));
}

/// A line's name, whether the second channel tells it from another of the same colour, and its rows.
type Line<'e> = (String, bool, Vec<&'e [Cell]>);

fn lines(export: &Export) -> Vec<Line<'_>> {
    let data = &export.data;
    let colour = data.place(data.plot.colour);
    let second = data.plot.second.map(|name| data.place(name));
    let first_of_second = second.and_then(|place| Some(data.rows.first()?[place].plain()));
    let mut lines: Vec<Line<'_>> = Vec::new();
    for row in &data.rows {
        let other = second.map(|place| row[place].plain());
        let is_second = other != first_of_second;
        let mut name = row[colour].plain();
        if let Some(other) = other.filter(|_| is_second) {
            let _ = write!(name, ", {other}");
        }
        match lines.last_mut().filter(|line| line.0 == name) {
            Some(line) => line.2.push(row),
            None => lines.push((name, is_second, vec![row])),
        }
    }
    lines
}

fn caption(export: &Export) -> String {
    let below: Vec<String> = export.lines_below().iter().map(|line| escaped(line)).collect();
    format!("\\caption{{{} {{\\small {}}}}}", escaped(&export.title), below.join(". "))
}

/// What LaTeX would take for itself, and the signs of figures that its text fonts lack.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(character);
            }
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '×' => out.push_str("$\\times$"),
            '÷' => out.push_str("$\\div$"),
            '→' => out.push_str("$\\rightarrow$"),
            '≈' => out.push_str("$\\approx$"),
            '≤' => out.push_str("$\\leq$"),
            '≥' => out.push_str("$\\geq$"),
            '−' => out.push_str("$-$"),
            '·' => out.push_str("$\\cdot$"),
            '○' => out.push_str("$\\circ$"),
            'µ' => out.push_str("$\\mu$"),
            '\u{2009}' | '\u{202f}' => out.push_str("\\,"),
            '\n' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
