--- What a person is told once and is not an error: a line on standard error.

local notice = {}

local said = {} -- by key

local function on_stderr(line)
    io.stderr:write("ponder: ", line, "\n")
end

local say = on_stderr

---Has a function told what is said, in place of standard error.
---@param listener fun(line: string)? nil: standard error again
---@return fun(line: string) before who was told until now
function notice.listen(listener)
    local before = say
    say = listener or on_stderr
    return before
end

---Says something, unless this process has said it before.
---@param line string
---@param key? string what counts as the same; default: the line
function notice.once(line, key)
    key = key or line
    if not said[key] then
        said[key] = true
        say(line)
    end
end

---Forgets what has been said, for specs.
function notice.forget()
    said = {}
end

---Says that a quoted text was cut, once.
---@param where string "tot"
---@param event MachineEvent its `text_cut`, as ponder.machine.run makes it
function notice.of_cut(where, event)
    notice.once(("%s: a quoted text (%s) of %d bytes was cut to its first %d; see max_text_bytes")
        :format(where, event.metadata.tag, event.measurements.bytes, event.measurements.max_bytes),
        "cut")
end

return notice
