--- Exports a run as one self-contained page: `ponder export FILE --format html`.
---
--- The parts of the page are in lua/ponder/show/page; ponder.show.standalone explains why its
--- data cannot become markup or code.

local page_data = require "ponder.show.export.page_data"
local standalone = require "ponder.show.standalone"

local html = {}

---The page of a run.
---@param data table of ponder.show.export.page_data
---@param live boolean? the page is served, and follows its run
---@return string
function html.page(data, live)
    return standalone.page("run", data, live)
end

---Writes the page of a run.
---@param log ponder.log.Reader
---@param out {write: fun(self, ...): any, string?} a file
---@param opts? {full: boolean?} `full`: omit nothing, however large the page becomes
---@return boolean? ok
---@return string? message
function html.write(log, out, opts)
    local data = page_data.read(log, { all = opts and opts.full })
    data.path = ("%s#%d"):format(log.path, log.number)
    local ok, message = out:write(html.page(data))
    return ok and true, message
end

return html
