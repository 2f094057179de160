--- Opens a page in the browser of whoever sits at the machine.
---
--- Other users of the machine can read the arguments of a process, so the browser is not given the
--- URL with its token but a file that leads there and that only its owner can read.

local private = require "ponder.core.private"
local quote = require "ponder.quote"

local open = {}

local PAGE = [[<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%s"><title>ponder</title>
]]

local function program()
    local browser = os.getenv "BROWSER"
    if browser and browser ~= "" then
        return browser:match "^[^:]+"
    end
    local has_screen = os.getenv "DISPLAY" or os.getenv "WAYLAND_DISPLAY"
    return has_screen and "xdg-open" or nil
end

---Opens a browser with $BROWSER or xdg-open, and does not wait for it.
---@param url string
---@return table? opened to be closed when the page has ended; nil: there is no screen
function open.browser(url)
    local command = program()
    if not command then
        return nil
    end
    local path = os.tmpname()
    os.remove(path)
    path = path .. ".html"
    if not private.write(path, PAGE:format(url), true) then
        return nil
    end
    os.execute(("%s %s >/dev/null 2>&1 </dev/null &"):format(quote.shell(command),
        quote.shell(path)))
    return setmetatable({}, { __close = function() os.remove(path) end })
end

return open
