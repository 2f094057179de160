--- `ponder export`: writes a run in the format of another program.

local cli = require "ponder.cli.shared.main"
local opened = require "ponder.cli.shared.opened"
local outputs = require "ponder.cli.shared.outputs"

local FORMATS = { "dot", "html", "json", "mermaid", "otlp" }
local MODULES = { dot = "graph", html = "page_data", mermaid = "graph" } -- else the format

local export = cli.command({ files = true, expects = { 0, 1, "one run" } }, {
    { "format", value = "NAME", enum = FORMATS, help = "dot, html, json, mermaid or otlp" },
    { "output", value = "FILE", help = "write there (default: standard output)" },
    { "search", value = "N", type = "integer", min = 1,
        modes = { "--format dot", "--format mermaid" }, help = "dot, mermaid: only search N" },
    { "full", modes = { "--format html" },
        help = "html: omit nothing, however large the page becomes" },
    { "content", modes = { "--format otlp" },
        help = "otlp: include prompts and replies" },
    { "otlp", value = "URL", modes = { "--format otlp" },
        help = "send to an OpenTelemetry collector: http://localhost:4318" },
})

export.summary = "write a run as dot, Mermaid, JSON, OpenTelemetry traces or a page"

export.about = [[
ponder export [OPTION...] [FILE|NAME|N]

Writes the newest run, or the one with that log path, or that name or number in ponder log.

  dot      trees and thought graphs for Graphviz: ... --format dot | dot -Tsvg
  mermaid  the same as a flow chart for Markdown (Mermaid's default limit: 500
           edges)
  html     one page with the trees, calls and totals, to open in a browser
  json     everything in the log, as one object
  otlp     traces that follow OpenTelemetry's conventions for generative AI, as
           OTLP/JSON; prompts and replies only with --content; --otlp sends them
           with $OTEL_EXPORTER_OTLP_HEADERS as headers and prints the trace id]]

local function has_search(log, number)
    for search in log:searches() do
        if search.id == number then
            return true
        end
    end
    return false
end

function export.run(opts, operands)
    opts.format = opts.format or opts.otlp and "otlp"
    cli.expect(opts.format, "expected --format " .. table.concat(FORMATS, "|"))
    cli.check_modes(export, opts, "--format " .. opts.format)
    cli.refuse(opts.otlp and opts.output
        and "--otlp sends traces; it cannot be combined with --output")
    -- With write(log, out, opts).
    local format = require("ponder.show.export." .. (MODULES[opts.format] or opts.format))
    return opened.run(1, operands, function(log)
        if opts.otlp then
            io.stdout:write((cli.need(format.post(log, opts))), "\n")
            return
        end
        cli.expect(not opts.search or has_search(log, opts.search),
            ("%s: there is no search %d"):format(log.path, opts.search or 0))
        return outputs.stream(opts.output, function(out)
            format.write(log, out, opts)
        end)
    end)
end

return export
