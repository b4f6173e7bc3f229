package integrations

import (
	"net/http"
	"strings"
	"testing"
)

// testComments checks that comments of others are neither changed nor taken for those of the action,
// even if they have its marker.
func testComments(t *testing.T, archive []byte) {
	const forged = "<!-- espalier: espalier -->\nall is well"
	for name, tt := range map[string]struct {
		user, viewer string
		author       string // of the comment
		gitlab       bool
	}{
		"token of the workflow": {author: bot},
		"with GraphQL":          {viewer: bot, author: bot},
		"app":                   {viewer: "reports", author: "reports[bot]"},
		"user":                  {user: "octocat", author: "octocat"},
		"GitLab":                {user: "project_7_bot", author: "project_7_bot", gitlab: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, r := newProject(t, ""), newRemote(t, archive)
			r.user, r.viewer = tt.user, tt.viewer
			for i, author := range []string{"mallory", "github-actions", "other[bot]", ""} {
				r.comments = append(r.comments, comment{ID: i + 1, Author: author, Body: forged})
			}
			run := func() (log string) {
				if tt.gitlab {
					log, _ = runJob(t, p, r, nil)
				} else {
					log = runAction(t, p, r, nil, nil).log
				}
				return log
			}
			for range 2 { // The second run updates the comment.
				log := run()
				for _, c := range r.comments[:4] {
					if c.Body != forged {
						t.Errorf("the comment of %q is changed", c.Author)
					}
				}
				if len(r.comments) != 5 || r.comments[4].Author != tt.author || !strings.Contains(r.comments[4].Body, "maximum none → 5") {
					t.Fatalf("comments %+v\n%s", r.comments, log)
				}
				r.comments[4].Body = "<!-- espalier: espalier -->\nolder"
			}
			// If the comment cannot be updated, there is a new one.
			for i, status := range []int{http.StatusForbidden, http.StatusNotFound} {
				r.denied = status
				if log := run(); len(r.comments) != 6+i || !strings.Contains(r.comments[5+i].Body, "maximum none → 5") {
					t.Errorf("%d: comments %+v\n%s", status, r.comments, log)
				}
			}
			r.denied = http.StatusInternalServerError
			log := run()
			contains(t, log, "cannot update the comment: ")
			if len(r.comments) != 7 {
				t.Errorf("%d comments", len(r.comments))
			}
		})
	}
}
