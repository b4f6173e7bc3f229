// The token for `espalier ui`. It is in the fragment of the link that the command prints, and is kept
// for this tab: a browser would send a cookie to all other ports of the machine, too.

const prefix = "#token=";
const key = "token";
let token = "";

// readToken takes the token from the address bar. It reports whether there is one.
export function readToken(): boolean {
  try {
    if (token === "") token = sessionStorage.getItem(key) ?? "";
  } catch {
    // storage may be blocked: the token holds until the page is loaded again
  }
  if (!location.hash.startsWith(prefix)) return false;
  token = location.hash.slice(prefix.length);
  history.replaceState(null, "", location.pathname);
  try {
    sessionStorage.setItem(key, token);
  } catch {
    // as above
  }
  return true;
}

// tokenHeader returns the header of requests.
export function tokenHeader(): Record<string, string> {
  return token === "" ? {} : { "Espalier-Token": token };
}
