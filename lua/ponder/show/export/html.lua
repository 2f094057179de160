--- Exports a run as one self-contained page: `ponder export FILE --format html`.
---
--- The parts of the page are in lua/ponder/show/page; ponder.show.standalone explains why its
--- data cannot become markup or code.

local page_data = require "ponder.show.export.page_data"
local standalone = require "ponder.show.standalone"

local html = {}

---Writes the page of a run.
---@param out {write: fun(self, ...)} as of file.replace
---@param opts? {full: boolean?} `full`: omit nothing, however large the page becomes
function html.write(log, out, opts)
    local data = page_data.read(log, { all = opts and opts.full })
    data.path = ("%s#%d"):format(log.path, log.number)
    out:write(standalone.page("run", data))
end

return html
