--- Notices that are not errors: a line on standard error, shown once per process.

local notice = {}

local shown = {} -- by key

local function on_stderr(line)
    io.stderr:write("ponder: ", line, "\n")
end

local show = on_stderr

---Sends notices to a function instead of standard error.
---@param listener fun(line: string)? nil: standard error again
---@return fun(line: string) before the previous listener
function notice.listen(listener)
    local before = show
    show = listener or on_stderr
    return before
end

---Shows a notice, unless this process has shown it before.
---@param key? string identifies the notice; default: the line
function notice.once(line, key)
    key = key or line
    if not shown[key] then
        shown[key] = true
        show(line)
    end
end

---Forgets which notices were shown, for specs.
function notice.forget()
    shown = {}
end

---Shows once that a quoted text was truncated.
---@param where string "tot"
---@param event {measurements: table, metadata: table} a `text_cut`
function notice.of_cut(where, event)
    notice.once(("%s: a quoted text (%s) of %d bytes was truncated to %d; see max_text_bytes")
        :format(where, event.metadata.tag, event.measurements.bytes, event.measurements.max_bytes),
        "cut")
end

return notice
